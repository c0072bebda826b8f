"""`get_task` in each phase: a briefing, or an action that comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from aop.gated.machine import briefings
from aop.gated.machine.active_pr import ActivePr, next_position, with_task_started
from aop.gated.machine.position import Rules, branch_of, notice, plan_of, step_of, task
from aop.gated.machine.state import Brief, DropDraft, MakeBranch, Merge, Next, Phase, Review, TaskAsked, Workflow


def on_task_asked(known: Workflow, event: TaskAsked, rules: Rules) -> Next:
    """Return the briefing or action of the current phase; repeated calls are safe (GATED-19)."""
    if known.escalated:
        return known, notice(briefings.escalated())
    return TASK_HANDLERS[known.status](known, event, rules)


def ask_for_plan(known: Workflow, rules: Rules) -> Brief:
    """Ask for the plan of the next pull request."""
    return task(briefings.initialise(rules.master_plan, known.last_error))


def ask_for_one_commit(known: Workflow, rules: Rules) -> Brief:
    """Ask for one commit."""
    return task(briefings.finalise(plan_of(known), rules.base_branch))


def ask_for_finer_plan(known: Workflow) -> Brief:
    """Ask for finer tasks."""
    context = known.replan_context
    if context is None:
        raise AssertionError("a workflow that plans again knows what for")
    return task(briefings.replan(context.original_task, context.last_error, known.last_error))


def serve_step(known: Workflow) -> Next:
    """Serve the next step, the checkpoint that is due, or the review after the last step."""
    plan = plan_of(known)
    place = next_position(plan)
    if known.pending_analysis is not None:
        return known, task(briefings.analyse(known.pending_analysis.output))
    if known.last_completed_step is not None:
        return known, task(briefings.checkpoint(known.last_completed_step))
    if place is None:
        return replace(known, status=Phase.CODE_REVIEW), Review()
    return replace(known, plan=with_task_started(plan, place)), task(briefings.next_step(plan, place, known.guidance))


def _begin(known: Workflow, event: TaskAsked, rules: Rules) -> Next:
    """Ask for a plan, or for the existing draft; a draft that is all done is left from the last pull request."""
    if isinstance(event.draft, ActivePr):
        if next_position(event.draft) is None:
            return known, DropDraft()
        if known.last_error is None:
            return known, task(briefings.draft_waits())
    if event.is_plan_done and event.draft is None:
        return known, notice(briefings.all_done())
    return known, ask_for_plan(known, rules)


def _debug(known: Workflow, _event: TaskAsked, rules: Rules) -> Next:
    if known.pending_analysis is not None:
        return known, task(briefings.analyse(known.pending_analysis.output))
    return known, task(briefings.debug(known, step_of(known), rules.thresholds))


def _merge(known: Workflow, _event: TaskAsked, _rules: Rules) -> Next:
    return replace(known, status=Phase.MERGING_BRANCH), Merge(branch=known.current_pr_branch or "")


TASK_HANDLERS: Mapping[Phase, Callable[[Workflow, TaskAsked, Rules], Next]] = {
    Phase.INITIALIZING: _begin,
    Phase.CREATING_BRANCH: lambda known, _event, _rules: (known, MakeBranch(branch=branch_of(plan_of(known).pr_title))),
    Phase.EXECUTING_TDD: lambda known, _event, _rules: serve_step(known),
    Phase.DEBUGGING: _debug,
    Phase.REPLANNING: lambda known, _event, _rules: (known, ask_for_finer_plan(known)),
    Phase.CODE_REVIEW: lambda known, _event, _rules: (known, Review()),
    Phase.AWAITING_FINALIZATION: lambda known, _event, rules: (known, ask_for_one_commit(known, rules)),
    Phase.FINALIZE_COMPLETE: lambda known, _event, _rules: (
        known,
        task(briefings.mark_plan(plan_of(known), known.last_commit_hash or "")),
    ),
    Phase.PLAN_UPDATED: _merge,
    Phase.MERGING_BRANCH: _merge,
    Phase.HALTED: lambda known, _event, _rules: (known, notice(briefings.halted(known.halt_reason))),
}
