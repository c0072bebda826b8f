"""Every tool that the gateway serves, and the module that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from aop.kernel.calls import Tool

TOOL_MODULES: Mapping[str, str] = {
    "collisions.scan": "aop.kernel.tools.collisions",
    "escalate_for_external_help": "aop.gated.tools",
    "evidence.latest": "aop.kernel.tools.evidence",
    "evidence.verify": "aop.kernel.tools.verification",
    "feature.approve": "aop.kernel.tools.merge",
    "feature.begin_anew": "aop.kernel.tools.anew",
    "feature.delete": "aop.kernel.tools.deletion",
    "feature.discover_specs": "aop.kernel.tools.specs",
    "feature.get_context": "aop.kernel.tools.feature",
    "feature.ingest_spec": "aop.kernel.tools.specs",
    "feature.init": "aop.kernel.tools.feature",
    "feature.log_append": "aop.kernel.tools.state",
    "feature.ready_to_merge": "aop.kernel.tools.merge",
    "feature.retry": "aop.kernel.tools.running",
    "feature.state_get": "aop.kernel.tools.feature",
    "feature.state_patch": "aop.kernel.tools.state",
    "feature.trees": "aop.kernel.tools.undoing",
    "feature.undo": "aop.kernel.tools.undoing",
    "gated.reset": "aop.gated.steering",
    "gated.resume": "aop.gated.resuming",
    "gated.start": "aop.gated.steering",
    "gated.status": "aop.gated.steering",
    "gates.list": "aop.kernel.tools.gates",
    "gates.run": "aop.kernel.tools.gates",
    "gates.status": "aop.kernel.tools.gate_status",
    "get_task": "aop.gated.tools",
    "inbox.answer": "aop.kernel.tools.answers",
    "inbox.ask": "aop.kernel.tools.inbox",
    "inbox.ask_path": "aop.kernel.tools.path_requests",
    "inbox.expire": "aop.kernel.tools.answers",
    "inbox.list": "aop.kernel.tools.inbox",
    "leftovers.note": "aop.kernel.tools.leftovers",
    "list_directory": "aop.gated.looking",
    "locks.acquire": "aop.kernel.tools.locks",
    "locks.release": "aop.kernel.tools.locks",
    "notices.note": "aop.kernel.tools.notices",
    "plan.get": "aop.kernel.tools.plan",
    "plan.submit": "aop.kernel.tools.plan",
    "plan.update": "aop.kernel.tools.plan",
    "qa.test_index_get": "aop.kernel.tools.qa",
    "qa.test_index_update": "aop.kernel.tools.qa",
    "read_file": "aop.gated.looking",
    "repo.apply_patch": "aop.kernel.tools.patch",
    "repo.commit": "aop.kernel.tools.branches",
    "repo.diff": "aop.kernel.tools.repo",
    "repo.diff_bundle": "aop.kernel.tools.review",
    "repo.ensure_worktree": "aop.kernel.tools.repo",
    "repo.merge": "aop.kernel.tools.branches",
    "repo.read_file": "aop.kernel.tools.repo",
    "repo.rebase_onto_main": "aop.kernel.tools.branches",
    "repo.search": "aop.kernel.tools.search",
    "repo.status": "aop.kernel.tools.repo",
    "report.dashboard": "aop.kernel.tools.report",
    "report.feature_summary": "aop.kernel.tools.review",
    "request_scope_reduction": "aop.gated.tools",
    "run.add": "aop.kernel.tools.running",
    "run.began": "aop.kernel.tools.runs",
    "run.pause": "aop.kernel.tools.running",
    "run.resume": "aop.kernel.tools.running",
    "run.took": "aop.kernel.tools.running",
    "safe_patch": "aop.gated.patching",
    "search_code": "aop.gated.looking",
    "submit_note": "aop.kernel.tools.proposals",
    "submit_patch": "aop.kernel.tools.proposals",
    "submit_plan": "aop.kernel.tools.proposals",
    "submit_request": "aop.kernel.tools.proposals",
    "submit_work": "aop.gated.tools",
    "usage.begin": "aop.kernel.tools.usage",
    "usage.record": "aop.kernel.tools.usage",
}
"""Every tool, and the module that has its row: a command pays for the tools that it calls, not for all of them."""


class Catalogue(Mapping[str, Tool]):
    """All tools by name; the module of a tool is imported when it is asked for."""

    def __getitem__(self, name: str) -> Tool:
        rows: tuple[Tool, ...] = import_module(TOOL_MODULES[name]).TOOLS
        return next(tool for tool in rows if tool.name == name)

    def __iter__(self) -> Iterator[str]:
        return iter(TOOL_MODULES)

    def __len__(self) -> int:
        return len(TOOL_MODULES)


CATALOGUE = Catalogue()
