"""Step: the next action of a workflow, from its state (GATED-39 to GATED-62).

Each action ends in the event that it names; the last one is the tool's answer. Before that, nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from aop.core.errors import OutOfStep, Refusal, ToolLocked, WorkflowEscalated, WorkflowHalted
from aop.gated.machine import briefings, state
from aop.gated.machine.active_pr import PlanStep, PlanTask, StepType, next_position, with_tasks
from aop.gated.machine.get_task import ask_for_finer_plan, ask_for_one_commit, ask_for_plan, on_task_asked, serve_step
from aop.gated.machine.position import Rules, notice, plan_of, position_of, rejection, success
from aop.gated.machine.state import Event, Next, Phase, Workflow
from aop.gated.machine.submit_work import on_submitted
from aop.gated.machine.verdicts import count_failure, on_command_ran, on_preflight_ran, on_without_fix_ran


def step(known: Workflow, event: Event, rules: Rules) -> Next:
    """Return the workflow after an event, and the next action; a refusal changes nothing."""
    after, action = HANDLERS[type(event)](known, event, rules)
    if isinstance(action, state.Brief):
        return replace(after, judged=False), action
    if isinstance(action, state.Judge) and not isinstance(event, state.RefsMoved):
        return replace(after, judged=action.verdict is not state.SubmissionVerdict.NEEDS_ANALYSIS), action
    return after, action


def _branch_made(known: Workflow, event: state.BranchMade, _rules: Rules) -> Next:
    return serve_step(replace(known, status=Phase.EXECUTING_TDD, current_pr_branch=event.branch))


def _committed(known: Workflow, event: state.Committed, _rules: Rules) -> Next:
    """After the last checkpoint of review findings comes the next review (C-42)."""
    after = replace(known, last_completed_step=None, last_commit_hash=event.commit)
    if after.review_rounds and next_position(plan_of(after)) is None:
        after = replace(after, status=Phase.CODE_REVIEW)
    return after, success(f"The checkpoint is the commit {event.commit}.")


def _refs_moved(known: Workflow, event: state.RefsMoved, _rules: Rules) -> Next:
    return known, rejection(event.what)


def _reduction_asked(known: Workflow, _event: state.ReductionAsked, rules: Rules) -> Next:
    unlock = rules.thresholds.unlock_scope_reduction_at
    return known, _locked(known, unlock, "request_scope_reduction") or state.Revert()


def _reverted(known: Workflow, event: state.Reverted, _rules: Rules) -> Next:
    task = plan_of(known).tasks[position_of(known).task]
    after = replace(
        known,
        status=Phase.REPLANNING,
        replan_context=state.ReplanContext(original_task=task, last_error=known.last_error or ""),
        last_error=None,
        pending_analysis=None,
        frozen_tests=event.frozen,
    )
    return after, ask_for_finer_plan(after)


def _escalation_asked(known: Workflow, _event: state.EscalationAsked, rules: Rules) -> Next:
    """Ask a person after many attempts, or earlier when a finer plan did not help (C-18)."""
    unlock = rules.thresholds.unlock_escalation_at
    if known.replan_count:
        unlock = min(unlock, rules.thresholds.unlock_scope_reduction_at)
    refusal = _locked(known, unlock, "escalate_for_external_help")
    return (known, refusal) if refusal else _escalated(known)


def _locked(known: Workflow, unlock: int, tool: str) -> Refusal | None:
    """Refuse a tool that is still locked (GATED-76)."""
    if known.escalated:
        return WorkflowEscalated("A person was asked for help and has not answered yet.")
    if known.status is Phase.HALTED:
        return WorkflowHalted(f"The workflow is halted: {known.halt_reason}")
    attempts = known.debug_attempt_counter if known.status is Phase.DEBUGGING else 0
    if attempts >= unlock:
        return None
    message = f"`{tool}` unlocks after {unlock} failed attempts; so far there are {attempts}."
    return ToolLocked(message, tool=tool, attempts=attempts, unlocks_at=unlock)


def _escalated(known: Workflow) -> Next:
    return replace(known, escalated=True), notice(briefings.escalated())


def _person_guided(known: Workflow, event: state.PersonGuided, _rules: Rules) -> Next:
    if not known.escalated:
        return known, OutOfStep("No help was requested.")
    after = replace(known, escalated=False, guidance=event.guidance, review_rounds=0)
    return after, notice("The workflow goes on with this guidance.")


def _reviewed(known: Workflow, review: state.Reviewed, rules: Rules) -> Next:
    """Turn findings into tasks; after the allowed rounds a person decides (C-12)."""
    known = replace(known, last_error=None)
    if not review.tasks:
        after = replace(known, status=Phase.AWAITING_FINALIZATION)
        return after, ask_for_one_commit(after, rules)
    if known.review_rounds >= rules.thresholds.review_rounds:
        return _escalated(replace(known, last_error="\n".join(task.task_name for task in review.tasks)))
    plan = with_tasks(plan_of(known), review.tasks)
    return serve_step(replace(known, status=Phase.EXECUTING_TDD, plan=plan, review_rounds=known.review_rounds + 1))


def _review_failed(known: Workflow, event: state.ReviewFailed, rules: Rules) -> Next:
    """Count a failed review as a round, so that a broken reviewer is not asked for ever."""
    after = replace(known, last_error=event.reason, review_rounds=known.review_rounds + 1)
    if known.review_rounds >= rules.thresholds.review_rounds:
        return _escalated(after)
    return after, notice(briefings.reviewer_failed(event.reason))


def _squashed(known: Workflow, squashed: state.Squashed, _rules: Rules) -> Next:
    problem = squashed.problem
    if not problem and squashed.commits != 1:
        problem = f"The branch has {squashed.commits} commits since its base; exactly one is wanted."
    if problem:
        return replace(known, last_error=problem), rejection(problem)
    after = replace(known, status=Phase.FINALIZE_COMPLETE, last_commit_hash=squashed.tip, last_error=None)
    return after, success(f"The pull request is the one commit {squashed.tip}.")


def _plan_marked(known: Workflow, marked: state.PlanMarked, _rules: Rules) -> Next:
    """Finish the pull request; where its gates fail, making them pass is one more task (GATED-90)."""
    if marked.failed_mode:
        goal = f"Make the `{marked.failed_mode}` gates pass on the finished pull request."
        task = PlanTask(task_name="Make the gates pass", tdd_steps=(PlanStep(type=StepType.GREEN, description=goal),))
        return count_failure(replace(known, plan=with_tasks(plan_of(known), (task,))), marked.reason)
    if not marked.is_marked:
        return replace(known, last_error=marked.reason), rejection(marked.reason)
    return replace(known, status=Phase.PLAN_UPDATED, last_error=None), success("The plan says that it is done.")


def _merged(_known: Workflow, event: state.Merged, rules: Rules) -> Next:
    """Start the next pull request from an empty state (GATED-97)."""
    return Workflow(), notice(briefings.all_done()) if event.is_plan_done else ask_for_plan(Workflow(), rules)


def _approval_awaited(known: Workflow, event: state.ApprovalAwaited, _rules: Rules) -> Next:
    return known, notice(briefings.awaiting_approval(known.current_pr_branch or "", event.reason))


def _merge_conflicted(known: Workflow, event: state.MergeConflicted, rules: Rules) -> Next:
    reason = briefings.conflict(known.current_pr_branch or "", rules.base_branch, event)
    return replace(known, status=Phase.HALTED, halt_reason=reason), notice(briefings.halted(reason))


HANDLERS: Mapping[type, Callable[[Workflow, Any, Rules], Next]] = {
    state.TaskAsked: on_task_asked,
    state.Submitted: on_submitted,
    state.ReductionAsked: _reduction_asked,
    state.EscalationAsked: _escalation_asked,
    state.PersonGuided: _person_guided,
    state.CommandRan: on_command_ran,
    state.WithoutFixRan: on_without_fix_ran,
    state.PreflightRan: on_preflight_ran,
    state.BranchMade: _branch_made,
    state.Committed: _committed,
    state.Reverted: _reverted,
    state.DraftDropped: lambda known, _event, rules: (known, ask_for_plan(known, rules)),
    state.Reviewed: _reviewed,
    state.ReviewFailed: _review_failed,
    state.Squashed: _squashed,
    state.PlanMarked: _plan_marked,
    state.Merged: _merged,
    state.ApprovalAwaited: _approval_awaited,
    state.MergeConflicted: _merge_conflicted,
    state.RefsMoved: _refs_moved,
}
