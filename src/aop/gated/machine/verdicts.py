"""How a submission is judged by what ran: red for the right reason, green by the fix, and the preflight after all."""

from __future__ import annotations

from msgspec.structs import replace

from aop.gated.machine.active_pr import StepType, with_step_done
from aop.gated.machine.position import SUBMIT_WORK, Rules, place_of, plan_of, rejected, step_of, succeeded
from aop.gated.machine.state import (
    CommandRan,
    Judge,
    Next,
    PendingAnalysis,
    Phase,
    PreflightRan,
    RunPreflight,
    RunWithoutFix,
    SubmissionVerdict,
    WithoutFixRan,
    Workflow,
)


def command_ran(known: Workflow, ran: CommandRan, _rules: Rules) -> Next:
    """Judge the run of the submitted test command."""
    if ran.weakened:
        files = ", ".join(f"`{path}`" for path in ran.weakened)
        return failed(known, f"Tests that went red cannot be changed without a grant: {files}.\n\n{ran.output}")
    if step_of(known).type is StepType.RED:
        return _red(known, ran)
    if not ran.passed:
        return failed(known, ran.output)
    return known, RunWithoutFix()


def _red(known: Workflow, ran: CommandRan) -> Next:
    """A RED step fails, and for the reason that it is about; what that is, the agent says next (C-14)."""
    if ran.passed:
        return failed(known, f"The test was expected to fail, and passed.\n\n{ran.output}")
    if ran.red_problem:
        return failed(known, f"{ran.red_problem}\n\n{ran.output}")
    pending = PendingAnalysis(test_command=ran.test_command, output=ran.output, frozen=ran.frozen)
    answer = Judge(verdict=SubmissionVerdict.NEEDS_ANALYSIS, output=ran.output, next_call=SUBMIT_WORK)
    return replace(known, pending_analysis=pending), answer


def without_fix_ran(known: Workflow, ran: WithoutFixRan, _rules: Rules) -> Next:
    """Tests that pass without the fix prove nothing."""
    if ran.passed:
        return failed(known, f"The gates pass without the fix too, so no test proves it.\n\n{ran.output}")
    return known, RunPreflight()


def preflight_ran(known: Workflow, ran: PreflightRan, _rules: Rules) -> Next:
    """Only the preflight makes a step done; its checkpoint is due then."""
    if not ran.passed:
        return failed(known, ran.output)
    current = step_of(known)
    done = replace(step_done(known), last_completed_step=f"{current.type}: {current.description}")
    return done, succeeded(ran.output)


def step_done(known: Workflow) -> Workflow:
    """Return the workflow with the step done that was judged, and nothing left of the trouble with it."""
    return replace(
        known,
        status=Phase.EXECUTING_TDD,
        plan=with_step_done(plan_of(known), place_of(known)),
        pending_analysis=None,
        debug_attempt_counter=0,
        last_error=None,
        guidance=None,
    )


def failed(known: Workflow, output: str) -> Next:
    """Return the workflow with one more failed attempt at the step (GATED-45, GATED-48)."""
    after = replace(
        known,
        status=Phase.DEBUGGING,
        debug_attempt_counter=known.debug_attempt_counter + 1,
        last_error=output,
        pending_analysis=None,
    )
    return after, rejected(output)
