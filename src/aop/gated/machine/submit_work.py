"""`submit_work` in each phase: takes a plan, judges a step, or prepares the merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from aop.core import errors
from aop.core.errors import InvalidActivePr, Refusal
from aop.gated.machine import state
from aop.gated.machine.active_pr import (
    ActivePr,
    StepType,
    apply_replan,
    end_problems,
    next_position,
    order_problems,
    with_nothing_done,
)
from aop.gated.machine.position import Rules, plan_of, rejection, step_of, success
from aop.gated.machine.state import Decision, Expectation, Next, Phase, Submitted, Workflow
from aop.gated.machine.verdicts import complete_step, count_failure

EXPECTED = {
    StepType.RED: Expectation.FAIL,
    StepType.GREEN: Expectation.PASS,
    StepType.REFACTOR: Expectation.PASS,
}


def on_submitted(known: Workflow, work: Submitted, rules: Rules) -> Next:
    """Judge what the agent hands in."""
    if known.escalated:
        return known, errors.WorkflowEscalated("A person was asked for help and has not answered yet.")
    if known.judged:
        return known, errors.OutOfStep("This turn had its attempt; the next one begins with `get_task`.")
    if known.status is Phase.INITIALIZING:
        return _plan_submitted(known, work, rules)
    return SUBMISSION_HANDLERS[known.status](known, work)


def _plan_submitted(known: Workflow, work: Submitted, rules: Rules) -> Next:
    if not isinstance(work.draft, ActivePr):
        return _draft_refused(known, work.draft)
    problems = [work.title_problem, *order_problems(work.draft.tasks), *end_problems(work.draft.tasks)]
    if work.draft.master_plan_path != rules.master_plan:
        problems.append(f"`masterPlanPath` must be `{rules.master_plan}`.")
    if any(problems):
        return _draft_refused(known, InvalidActivePr(" ".join(filter(None, problems))))
    accepted = replace(known, status=Phase.CREATING_BRANCH, plan=with_nothing_done(work.draft), last_error=None)
    return accepted, success("The plan is accepted.")


def _replan_submitted(known: Workflow, work: Submitted) -> Next:
    if known.replan_context is None:
        raise AssertionError("a workflow that plans again knows what for")
    if not isinstance(work.draft, ActivePr):
        return _draft_refused(known, work.draft)
    plan, problems = apply_replan(plan_of(known), work.draft, original=known.replan_context.original_task.task_name)
    if problems:
        return _draft_refused(known, InvalidActivePr(" ".join(problems)))
    accepted = replace(
        known,
        status=Phase.EXECUTING_TDD,
        plan=plan,
        last_error=None,
        debug_attempt_counter=0,
        replan_count=known.replan_count + 1,
        replan_context=None,
    )
    return accepted, success("The finer plan is accepted.")


def _draft_refused(known: Workflow, refusal: Refusal | None) -> Next:
    problem = (refusal or InvalidActivePr("There is no `ACTIVE_PR.json`.")).message
    return replace(known, last_error=problem), rejection(problem)


def _step_submitted(known: Workflow, work: Submitted) -> Next:
    if work.analysis_decision is not None:
        return _on_analysis(known, work.analysis_decision, work)
    if known.pending_analysis is not None:
        return known, errors.AnalysisPending("The last run failed, as RED should; say whether for the right reason.")
    if known.last_completed_step is None:
        return known, _run_step(known, work)
    if work.test_command is not None:
        return known, errors.OutOfStep("The checkpoint of the last step comes first; it takes a summary alone.")
    return known, state.Commit(message=f"{known.last_completed_step}\n\n{work.summary}")


def _run_step(known: Workflow, work: Submitted) -> state.Action:
    if next_position(plan_of(known)) is None:
        return errors.OutOfStep("All steps are done; `get_task` begins the code review.")
    if work.test_command is None:
        return errors.TestCommandMissing("A step is judged by its tests, and there is no `test_command`.")
    kind = step_of(known).type
    if work.expectation is not EXPECTED[kind]:
        message = f"This is a {kind} step: its `expectation` is `{EXPECTED[kind]}`, and comes with the `test_command`."
        return errors.InvalidArguments(message, step=kind)
    return state.RunCommand(test_command=work.test_command)


def _on_analysis(known: Workflow, decision: Decision, work: Submitted) -> Next:
    pending = known.pending_analysis
    if pending is None:
        return known, errors.AnalysisNotPending("No run waits for an `analysis_decision`.")
    if work.test_command is not None:
        return known, errors.InvalidArguments("`analysis_decision` comes alone, without a `test_command`.")
    if decision is Decision.FAILURE:
        return count_failure(known, pending.output)
    done = complete_step(replace(known, frozen_tests={**known.frozen_tests, **pending.frozen}))
    return done, success("The RED step is done.")


def _squash(known: Workflow, work: Submitted) -> Next:
    return known, state.Squash(message=plan_of(known).pr_title, commit_hash=work.commit_hash)


def _check_plan(known: Workflow, _work: Submitted) -> Next:
    plan = plan_of(known)
    commit = known.last_commit_hash or ""
    return known, state.CheckPlan(path=plan.master_plan_path, pr_title=plan.pr_title, commit_hash=commit)


def _nothing_to_submit(known: Workflow, _work: Submitted) -> Next:
    return known, errors.OutOfStep(f"Nothing can be handed in while the workflow is in `{known.status}`.")


def _halted(known: Workflow, _work: Submitted) -> Next:
    return known, errors.WorkflowHalted(f"The workflow is halted: {known.halt_reason}")


SUBMISSION_HANDLERS: Mapping[Phase, Callable[[Workflow, Submitted], Next]] = {
    Phase.CREATING_BRANCH: _nothing_to_submit,
    Phase.EXECUTING_TDD: _step_submitted,
    Phase.DEBUGGING: _step_submitted,
    Phase.REPLANNING: _replan_submitted,
    Phase.CODE_REVIEW: _nothing_to_submit,
    Phase.AWAITING_FINALIZATION: _squash,
    Phase.FINALIZE_COMPLETE: _check_plan,
    Phase.PLAN_UPDATED: _nothing_to_submit,
    Phase.MERGING_BRANCH: _nothing_to_submit,
    Phase.HALTED: _halted,
}
