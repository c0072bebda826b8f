"""What `get_task` does in each phase: it tells the agent what to do, or has something done first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from aop.gated.machine import briefings
from aop.gated.machine.active_pr import ActivePr, position, served
from aop.gated.machine.position import Rules, branch_of, plan_of, step_of, tasked, told
from aop.gated.machine.state import (
    Brief,
    DropDraft,
    MakeBranch,
    Merge,
    Next,
    Phase,
    Review,
    TaskAsked,
    Workflow,
)


def asked(known: Workflow, event: TaskAsked, rules: Rules) -> Next:
    """Return what to do now; safe to be called again and again (GATED-19)."""
    return (known, told(briefings.escalated())) if known.escalated else ASKED[known.status](known, event, rules)


def initialise(known: Workflow, rules: Rules) -> Brief:
    """Ask for the plan of the next pull request."""
    return tasked(briefings.initialise(rules.master_plan, known.last_error))


def finalise(known: Workflow, rules: Rules) -> Brief:
    """Ask for one commit."""
    return tasked(briefings.finalise(plan_of(known), rules.base_branch))


def replan(known: Workflow) -> Brief:
    """Ask for finer tasks."""
    context = known.replan_context
    if context is None:
        raise AssertionError("a workflow that plans again knows what for")
    return tasked(briefings.replan(context.original_task, context.last_error, known.last_error))


def serve(known: Workflow) -> Next:
    """Serve one step; before it the checkpoint that is due, and after the last one the review."""
    plan = plan_of(known)
    place = position(plan)
    if known.pending_analysis is not None:
        return known, tasked(briefings.analyse(known.pending_analysis.output))
    if known.last_completed_step is not None:
        return known, tasked(briefings.checkpoint(known.last_completed_step))
    if place is None:
        return replace(known, status=Phase.CODE_REVIEW), Review()
    return replace(known, plan=served(plan, place)), tasked(briefings.next_step(plan, place, known.guidance))


def _begin(known: Workflow, event: TaskAsked, rules: Rules) -> Next:
    """Ask for a plan, or for handing in the one that is there; one that is done already is of the last time."""
    if isinstance(event.draft, ActivePr):
        if position(event.draft) is None:
            return known, DropDraft()
        if known.last_error is None:
            return known, tasked(briefings.draft_waits())
    return known, initialise(known, rules)


def _debug(known: Workflow, _event: TaskAsked, rules: Rules) -> Next:
    if known.pending_analysis is not None:
        return known, tasked(briefings.analyse(known.pending_analysis.output))
    return known, tasked(briefings.debug(known, step_of(known), rules.thresholds))


def _merge(known: Workflow, _event: TaskAsked, _rules: Rules) -> Next:
    return replace(known, status=Phase.MERGING_BRANCH), Merge(branch=known.current_pr_branch or "")


ASKED: Mapping[Phase, Callable[[Workflow, TaskAsked, Rules], Next]] = {
    Phase.INITIALIZING: _begin,
    Phase.CREATING_BRANCH: lambda known, _event, _rules: (known, MakeBranch(branch=branch_of(plan_of(known).pr_title))),
    Phase.EXECUTING_TDD: lambda known, _event, _rules: serve(known),
    Phase.DEBUGGING: _debug,
    Phase.REPLANNING: lambda known, _event, _rules: (known, replan(known)),
    Phase.CODE_REVIEW: lambda known, _event, _rules: (known, Review()),
    Phase.AWAITING_FINALIZATION: lambda known, _event, rules: (known, finalise(known, rules)),
    Phase.FINALIZE_COMPLETE: lambda known, _event, _rules: (
        known,
        tasked(briefings.mark_plan(plan_of(known), known.last_commit_hash or "")),
    ),
    Phase.PLAN_UPDATED: _merge,
    Phase.MERGING_BRANCH: _merge,
    Phase.HALTED: lambda known, _event, _rules: (known, told(briefings.halted(known.halt_reason))),
}
