"""Listings: the tests that a runner collects, asked for by AOP after the run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from aop.core.errors import Refusal
from aop.core.ids import GateRunId
from aop.kernel.config.gates import Step
from aop.kernel.features.worktree_extras import command_for
from aop.kernel.gates.execution.canary_steps import FOLDER, REPORT_OPTION, carry_plugin
from aop.kernel.gates.execution.exact_trees import ExactTree
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.reports.coverage import LARGEST_REPORT
from aop.kernel.gates.reports.listed_tests import pytest_names
from aop.kernel.gateway.calls import Call

PLUGIN = """\
import json


def pytest_collection_finish(session):
    with open({listing!r}, "w", encoding="utf-8") as listing:
        json.dump([item.nodeid for item in session.items], listing)
"""


def listed_tests(call: Call, plan: GatePlan, exact: ExactTree, run_id: GateRunId) -> tuple[str, ...] | None:
    """Have each step with canaries list its tests; return them as a report spells them.

    None if there is no such step, or one lists none.
    """
    carriers = {canary.step for canary in plan.reports.canaries}
    steps = [step for step in plan.steps if step.name in carriers]
    if not steps:
        return None
    listed = [_listing(call, plan, step, exact.folder, f"{run_id}-{step.name}.list.log") for step in steps]
    exact.restore()
    found = [names for names in map(pytest_names, listed) if names is not None]
    return tuple(name for names in found for name in names) if len(found) == len(steps) else None


def _listing(call: Call, plan: GatePlan, step: Step, checkout: Path, log_name: str) -> bytes:
    """Run a step that starts pytest without running its tests; return the listing that it leaves."""
    files = call.kernel.files
    token = call.kernel.new_id("listing").rpartition("-")[2]
    listing = checkout / FOLDER / f"{token}.json"
    words = (*(word for word in step.cmd if not REPORT_OPTION.fullmatch(word)), "--collect-only")
    code = PLUGIN.format(listing=str(listing))
    step = msgspec.structs.replace(step, cmd=words)
    step, extras = carry_plugin(files, step, checkout, plan.extras, token=token, code=code)
    command = command_for(
        plan.policy.execution,
        extras,
        step.cmd,
        checkout,
        log_path=files.root / plan.log_folder / log_name,
        timeout_seconds=step.timeout_seconds,
        folder=step.cwd,
        env=step.env,
    )
    call.kernel.processes.run(command)
    try:
        return files.read(listing.relative_to(files.root).as_posix(), limit=LARGEST_REPORT) or b""
    except Refusal:
        return b""
