"""Catalogue: every tool that the gateway serves, and its module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from aop.kernel.gateway.calls import Tool

TOOL_MODULES: Mapping[str, str] = {
    "collisions.scan": "aop.kernel.tools.plan.collisions",
    "escalate_for_external_help": "aop.gated.tools.workflow",
    "evidence.latest": "aop.kernel.tools.gates.evidence",
    "evidence.verify": "aop.kernel.tools.gates.verify_record",
    "feature.approve": "aop.kernel.tools.feature.merge",
    "feature.begin_anew": "aop.kernel.tools.feature.begin_anew",
    "feature.delete": "aop.kernel.tools.feature.delete",
    "feature.discover_specs": "aop.kernel.tools.feature.specs",
    "feature.get_context": "aop.kernel.tools.feature.context",
    "feature.hand_requests": "aop.kernel.tools.feature.objections",
    "feature.ingest_spec": "aop.kernel.tools.feature.specs",
    "feature.init": "aop.kernel.tools.feature.init",
    "feature.log_append": "aop.kernel.tools.feature.state",
    "feature.ready_to_merge": "aop.kernel.tools.feature.merge",
    "feature.redo": "aop.kernel.tools.feature.undo",
    "feature.reject": "aop.kernel.tools.feature.objections",
    "feature.request_changes": "aop.kernel.tools.feature.objections",
    "feature.retry": "aop.kernel.tools.feature.retry",
    "feature.state_get": "aop.kernel.tools.feature.context",
    "feature.state_patch": "aop.kernel.tools.feature.state",
    "feature.trees": "aop.kernel.tools.feature.undo",
    "feature.undo": "aop.kernel.tools.feature.undo",
    "forge.accept": "aop.forge.tools.clause_checks",
    "forge.answer": "aop.forge.tools.answers",
    "forge.ask": "aop.forge.tools.answers",
    "forge.artifact_drop": "aop.forge.tools.removals",
    "forge.build_audit": "aop.forge.builds.tools.build_audit",
    "forge.build_begin": "aop.forge.builds.tools.cycles",
    "forge.contract_diff": "aop.forge.tools.contracts",
    "forge.contract_edit": "aop.forge.tools.contracts",
    "forge.contract_export": "aop.forge.tools.contracts",
    "forge.contract_history": "aop.forge.tools.contracts",
    "forge.contract_show": "aop.forge.tools.contracts",
    "forge.generation_inputs": "aop.forge.tools.generation",
    "forge.generation_progress": "aop.forge.tools.generation",
    "forge.generation_store": "aop.forge.tools.generation",
    "forge.key_list": "aop.forge.tools.api_keys",
    "forge.key_new": "aop.forge.tools.api_keys",
    "forge.key_revoke": "aop.forge.tools.api_keys",
    "forge.pin": "aop.forge.tools.pin",
    "forge.check": "aop.forge.tools.clause_checks",
    "forge.plan": "aop.forge.tools.renovations",
    "forge.project_delete": "aop.forge.tools.removals",
    "forge.project_list": "aop.forge.tools.projects",
    "forge.project_new": "aop.forge.tools.projects",
    "forge.project_show": "aop.forge.tools.projects",
    "forge.scan": "aop.forge.tools.scans",
    "forge.scan_show": "aop.forge.tools.scans",
    "forge.tokens": "aop.forge.tools.broker.token_report",
    "forge_get_artifact": "aop.forge.tools.broker.session",
    "forge_get_build_contracts": "aop.forge.tools.broker.project_reads",
    "forge_get_contract": "aop.forge.tools.broker.contract_reads",
    "forge_get_phase_window": "aop.forge.tools.broker.contract_reads",
    "forge_get_project_context": "aop.forge.tools.broker.project_reads",
    "forge_get_project_contract": "aop.forge.tools.broker.project_reads",
    "forge_get_summary": "aop.forge.tools.broker.contract_reads",
    "forge_list_contracts": "aop.forge.tools.broker.contract_reads",
    "forge_list_project_contracts": "aop.forge.tools.broker.project_reads",
    "forge_scratchpad": "aop.forge.tools.broker.scratchpad",
    "forge_set_session": "aop.forge.tools.broker.session",
    "gated.reset": "aop.gated.tools.steer",
    "gated.resume": "aop.gated.tools.resume",
    "gated.start": "aop.gated.tools.steer",
    "gated.status": "aop.gated.tools.steer",
    "gates.check_base": "aop.kernel.tools.gates.check_base",
    "gates.list": "aop.kernel.tools.gates.list",
    "gates.run": "aop.kernel.tools.gates.run",
    "gates.status": "aop.kernel.tools.gates.status",
    "get_task": "aop.gated.tools.workflow",
    "inbox.answer": "aop.kernel.tools.inbox.answer",
    "inbox.ask": "aop.kernel.tools.inbox.ask",
    "inbox.ask_path": "aop.kernel.tools.inbox.ask_path",
    "inbox.expire": "aop.kernel.tools.inbox.answer",
    "inbox.list": "aop.kernel.tools.inbox.list",
    "leftovers.note": "aop.kernel.tools.run.leftovers",
    "list_directory": "aop.gated.tools.read",
    "locks.acquire": "aop.kernel.tools.plan.locks",
    "locks.release": "aop.kernel.tools.plan.locks",
    "notices.note": "aop.kernel.tools.inbox.notices",
    "plan.get": "aop.kernel.tools.plan.submit",
    "plan.submit": "aop.kernel.tools.plan.submit",
    "plan.update": "aop.kernel.tools.plan.submit",
    "qa.test_index_get": "aop.kernel.tools.gates.qa_index",
    "qa.test_index_update": "aop.kernel.tools.gates.qa_index",
    "read_file": "aop.gated.tools.read",
    "repo.apply_patch": "aop.kernel.tools.repo.apply_patch",
    "repo.commit": "aop.kernel.tools.repo.commit",
    "repo.diff": "aop.kernel.tools.repo.diff",
    "repo.diff_bundle": "aop.kernel.tools.repo.diff_bundle",
    "repo.ensure_worktree": "aop.kernel.tools.repo.ensure_worktree",
    "repo.follow_base": "aop.kernel.tools.repo.rebase",
    "repo.merge": "aop.kernel.tools.feature.merge",
    "repo.read_file": "aop.kernel.tools.repo.read_file",
    "repo.rebase_onto_main": "aop.kernel.tools.repo.rebase",
    "repo.search": "aop.kernel.tools.repo.search",
    "repo.take_edits": "aop.kernel.tools.repo.take_edits",
    "repo.status": "aop.kernel.tools.repo.status",
    "repo.sync": "aop.kernel.tools.repo.sync",
    "report.dashboard": "aop.kernel.tools.report.dashboard",
    "report.feature_summary": "aop.kernel.tools.report.feature_summary",
    "request_scope_reduction": "aop.gated.tools.workflow",
    "run.add": "aop.kernel.tools.run.add",
    "run.began": "aop.kernel.tools.run.began",
    "run.pause": "aop.kernel.tools.run.pause",
    "run.resume": "aop.kernel.tools.run.pause",
    "run.took": "aop.kernel.tools.run.add",
    "run.wait": "aop.kernel.tools.run.quota_wait",
    "run.waited": "aop.kernel.tools.run.quota_wait",
    "safe_patch": "aop.gated.tools.safe_patch",
    "search_code": "aop.gated.tools.read",
    "submit_note": "aop.kernel.tools.run.submit_proposal",
    "submit_patch": "aop.kernel.tools.run.submit_proposal",
    "submit_plan": "aop.kernel.tools.run.submit_proposal",
    "submit_request": "aop.kernel.tools.run.submit_proposal",
    "submit_work": "aop.gated.tools.workflow",
    "usage.begin": "aop.kernel.tools.run.usage",
    "usage.record": "aop.kernel.tools.run.usage",
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
