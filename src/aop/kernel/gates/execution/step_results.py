"""Step results: the end of each step, and the verdict if one did not pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.core.errors import GateFailed, GateTimeout, TransientExecFailure
from aop.core.exit_codes import exit_words
from aop.core.text.counts import list_some
from aop.kernel.config.gates import Step
from aop.kernel.gates.reports.verdict import ReportVerdict
from aop.kernel.ports.processes import CommandResult, Ending
from aop.kernel.record.documents.gate_runs import StepResult

OUTCOMES: Mapping[Ending, str] = {
    Ending.TIMED_OUT: "timed_out",
    Ending.NOT_STARTED: "not_started",
    Ending.OUT_OF_MEMORY: "out_of_memory",
}


class StepRun(Struct, frozen=True, kw_only=True):
    """A step that ran, and whether a failure was the machine's."""

    result: StepResult
    transient: bool
    output: bytes = b""
    """Its output, if that is a report."""


def first_failure(step_runs: Sequence[StepRun]) -> StepRun | None:
    """Return the first step that did not pass."""
    return next((each for each in step_runs if each.result.outcome != "passed"), None)


def step_result(step: Step, ended: CommandResult, log_path: str, *, attempts: int) -> StepResult:
    """Return the result of a step that ended."""
    passed = ended.ending is Ending.EXITED and ended.exit_code == 0
    return msgspec.convert(
        {
            "name": step.name,
            "command": step.cmd,
            "outcome": "passed" if passed else OUTCOMES.get(ended.ending, "failed"),
            "exit_code": ended.exit_code,
            "seconds": round(ended.seconds, 3),
            "attempts": attempts,
            "log_path": log_path,
            "problem": ended.problem,
        },
        StepResult,
    )


def verdict_of_step(failed: StepRun, before: Sequence[StepRun] = ()) -> ReportVerdict:
    """Return the verdict on a run whose step did not pass; what steps `before` it left may be what it lacks."""
    step = failed.result
    what = " ".join(step.command)
    if step.outcome == "timed_out":
        why = f"The step `{step.name}` passed its time limit: {what}"
        return ReportVerdict(failure_code=GateTimeout.code, failure=why)
    how = step.problem or f"it ended with {exit_words(step.exit_code)}"
    code = TransientExecFailure.code if failed.transient else GateFailed.code
    left = [f"`{path}`" for each in before for path in each.result.left]
    undone = f" (undone before it: {list_some(left)}; what it needs of that belongs in `outputs`)" if left else ""
    return ReportVerdict(failure_code=code, failure=f"The step `{step.name}` did not pass: {how}: {what}{undone}")
