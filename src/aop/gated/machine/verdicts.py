"""Verdicts: red for the right reason, green only with the fix, and the preflight."""

from __future__ import annotations

from msgspec.structs import replace

from aop.gated.machine import state
from aop.gated.machine.active_pr import StepType, with_step_done
from aop.gated.machine.position import SUBMIT_WORK, Rules, plan_of, position_of, rejection, step_of, success
from aop.gated.machine.state import Judge, Next, Phase, SubmissionVerdict, Workflow


def on_command_ran(known: Workflow, ran: state.CommandRan, _rules: Rules) -> Next:
    """Judge the run of the submitted test command."""
    if ran.weakened:
        files = ", ".join(ran.weakened)
        return count_failure(known, f"Tests cannot be changed without a grant: {files}.\n\n{ran.output}")
    if step_of(known).type is StepType.RED:
        return _on_red_run(known, ran)
    if not ran.passed:
        return count_failure(known, ran.output)
    return known, state.RunWithoutFix(printed=ran.output)


def _on_red_run(known: Workflow, ran: state.CommandRan) -> Next:
    """A RED step must fail; the agent then says whether for the right reason (C-14)."""
    if ran.passed:
        return count_failure(known, f"The test was expected to fail, and passed.\n\n{ran.output}")
    if ran.red_problem:
        return count_failure(known, f"{ran.red_problem}\n\n{ran.output}")
    pending = state.PendingAnalysis(
        test_command=ran.test_command, output=ran.output, frozen=ran.frozen, failed=ran.failed
    )
    answer = Judge(verdict=SubmissionVerdict.NEEDS_ANALYSIS, output=ran.output, next_call=SUBMIT_WORK)
    return replace(known, pending_analysis=pending), answer


def on_without_fix_ran(known: Workflow, ran: state.WithoutFixRan, _rules: Rules) -> Next:
    """Reject tests that pass without the fix."""
    if ran.passed:
        return count_failure(known, f"The gates pass without the fix too, so no test proves it.\n\n{ran.output}")
    if ran.needless:
        return count_failure(known, f"These tests pass without the fix too: {ran.needless}.\n\n{ran.output}")
    return known, state.RunPreflight(printed=ran.printed)


def on_preflight_ran(known: Workflow, ran: state.PreflightRan, _rules: Rules) -> Next:
    """Complete the step if the preflight passed; its checkpoint is due then."""
    if not ran.passed:
        return count_failure(known, ran.output)
    current = step_of(known)
    done = replace(complete_step(known), last_completed_step=f"{current.type}: {current.description}")
    return done, success("\n".join(filter(None, [ran.printed, ran.output])))


def complete_step(known: Workflow) -> Workflow:
    """Return the workflow with the judged step done and its errors cleared."""
    return replace(
        known,
        status=Phase.EXECUTING_TDD,
        plan=with_step_done(plan_of(known), position_of(known)),
        pending_analysis=None,
        debug_attempt_counter=0,
        last_error=None,
        guidance=None,
    )


def count_failure(known: Workflow, output: str) -> Next:
    """Count one more failed attempt at the step (GATED-45, GATED-48)."""
    after = replace(
        known,
        status=Phase.DEBUGGING,
        debug_attempt_counter=known.debug_attempt_counter + 1,
        last_error=output,
        pending_analysis=None,
    )
    return after, rejection(output)
