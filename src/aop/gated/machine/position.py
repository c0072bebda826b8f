"""Position: the current step of a workflow, and answers that many steps share."""

from __future__ import annotations

import re

from msgspec import Struct

from aop.gated.machine.active_pr import ActivePr, PlanStep, Position, next_position, step_at, with_step_done
from aop.gated.machine.state import AttemptThresholds, Brief, Judge, SubmissionVerdict, Workflow

GET_TASK, SUBMIT_WORK = "get_task", "submit_work"


class Rules(Struct, frozen=True, kw_only=True):
    """The repository's settings for a workflow."""

    master_plan: str = "docs/Plan_Doc/Active_Plan.md"
    base_branch: str = "main"
    thresholds: AttemptThresholds = AttemptThresholds()


def branch_of(title: str) -> str:
    """Return the branch of a pull request: `feat: Add it` becomes `feat/add-it` (GATED-66)."""
    kind, colon, rest = title.partition(":")
    prefix = re.fullmatch(r"([a-z]+)(?:\([^()]*\))?!?", kind.strip().casefold())
    folder, words = (prefix.group(1), rest) if colon and prefix else ("pr", title)
    slug = re.sub(r"[^a-z0-9]+", "-", words.casefold()).strip("-")[:60].rstrip("-")
    return f"{folder}/{slug or 'unnamed'}"


def plan_of(known: Workflow) -> ActivePr:
    """Return the pull request; a workflow with a branch has one."""
    if known.plan is None:
        raise AssertionError("a workflow past its beginning has a plan")
    return known.plan


def position_of(known: Workflow) -> Position:
    """Return the position of the step that is judged."""
    place = next_position(plan_of(known))
    if place is None:
        raise AssertionError("a step that is judged is a step of the plan")
    return place


def step_of(known: Workflow) -> PlanStep:
    """Return the step that is judged."""
    return step_at(plan_of(known), position_of(known))


def is_last_step(known: Workflow) -> bool:
    """Tell whether no step is left after the one that is judged."""
    return next_position(with_step_done(plan_of(known), position_of(known))) is None


def notice(text: str) -> Brief:
    """Return a briefing without work to hand in."""
    return Brief(text=text, next_call=GET_TASK)


def task(text: str) -> Brief:
    """Return a briefing with work to hand in."""
    return Brief(text=text, next_call=SUBMIT_WORK)


def success(output: str) -> Judge:
    """Accept a submission."""
    return Judge(verdict=SubmissionVerdict.SUCCESS, output=output, next_call=GET_TASK)


def rejection(output: str) -> Judge:
    """Reject a submission."""
    return Judge(verdict=SubmissionVerdict.FAILURE, output=output, next_call=GET_TASK)
