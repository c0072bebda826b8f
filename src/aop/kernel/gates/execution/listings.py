"""Listings: the tests that a runner collects, asked for by AOP after the run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from aop.core.errors import Refusal
from aop.core.ids import GateRunId
from aop.kernel.config.gates import Step
from aop.kernel.gates.execution.canary_steps import FOLDER, REPORT_OPTION, carry_plugin
from aop.kernel.gates.execution.exact_trees import ExactTree
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.reports.coverage import LARGEST_REPORT
from aop.kernel.gates.reports.listed_tests import pytest_names
from aop.kernel.gates.reports.printed_tests import LISTED
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.gateway.calls import Call

_GO, _CARGO = ("go", "test"), ("cargo", "test")
PLUGIN = """\
import json


def pytest_collection_finish(session):
    with open({listing!r}, "w", encoding="utf-8") as listing:
        json.dump([item.nodeid for item in session.items], listing)
"""


def listed_tests(call: Call, plan: GatePlan, exact: ExactTree, run_id: GateRunId) -> tuple[str, ...] | None:
    """Have each step that makes the report list its tests; return them as the report spells them.

    None if no such step can list them, or one lists none.
    """
    steps = [step for step in plan.steps if _can_list(step, plan.reports)]
    if not steps:
        return None
    listed = [_tests_of(call, plan, step, exact.folder, f"{run_id}-{step.name}.list.log") for step in steps]
    exact.restore()
    found = [names for names in listed if names is not None]
    return tuple(name for names in found for name in names) if len(found) == len(steps) else None


def _can_list(step: Step, reports: Reports) -> bool:
    if reports.tests is not None and reports.tests.step:
        return step.name == reports.tests.step and step.cmd[:2] in (_GO, _CARGO)
    return step.name in {canary.step for canary in reports.canaries}


def _tests_of(call: Call, plan: GatePlan, step: Step, checkout: Path, log_name: str) -> tuple[str, ...] | None:
    """Run a step without running its tests; return the tests that it lists."""
    parser, files = plan.reports.tests, call.kernel.files
    log_path = files.root / plan.log_folder / log_name
    if parser is not None and parser.step:
        step = msgspec.structs.replace(step, cmd=_listing_command(step.cmd))
        command = plan.command(step, checkout, log_path, extras=plan.extras)
        return LISTED[parser.type](call.kernel.processes.run(command).output)
    token = call.kernel.new_id("listing").rpartition("-")[2]
    listing = checkout / FOLDER / f"{token}.json"
    words = (*(word for word in step.cmd if not REPORT_OPTION.fullmatch(word)), "--collect-only")
    code = PLUGIN.format(listing=str(listing))
    step, extras = carry_plugin(
        files, msgspec.structs.replace(step, cmd=words), checkout, plan.extras, token=token, code=code
    )
    call.kernel.processes.run(plan.command(step, checkout, log_path, extras=extras))
    try:
        return pytest_names(files.read(listing.relative_to(files.root).as_posix(), limit=LARGEST_REPORT) or b"")
    except Refusal:
        return None


def _listing_command(words: tuple[str, ...]) -> tuple[str, ...]:
    if words[:2] == _GO:
        return (*_GO, "-list", ".", *words[2:])
    return (*words, *(() if "--" in words else ("--",)), "--list")
