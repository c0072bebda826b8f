"""Holds: a person pauses a build, lets it go on, and speaks to it. Pure."""

from __future__ import annotations

from aop.core.errors import TooManyInterjections
from aop.forge.builds.documents import BuildCycle
from aop.kernel.record.documents.base import revise

MOST_INTERJECTIONS = 20
LONGEST_INTERJECTION = 4_000


def paused_cycle(cycle: BuildCycle, reason: str, now: str) -> BuildCycle:
    """Return the cycle, paused; one that is held already stays as it is."""
    if cycle.hold:
        return cycle
    return revise(cycle, hold="paused", hold_reason=reason, updated_at=now)


def resumed_cycle(cycle: BuildCycle, now: str) -> BuildCycle:
    """Return the cycle, free to go on; one that reached its cap may cost as much again."""
    if not cycle.hold:
        return cycle
    is_raised = cycle.hold == "cost_cap"
    return revise(
        cycle,
        hold="",
        hold_reason="",
        cap_raises=cycle.cap_raises + is_raised,
        cost_warned=cycle.cost_warned and not is_raised,
        updated_at=now,
    )


def with_interjection(cycle: BuildCycle, text: str, now: str) -> BuildCycle:
    """Return the cycle with a text for its model, before its next reply (FORGE-231). Raises: TooManyInterjections."""
    if len(cycle.interjections) >= MOST_INTERJECTIONS:
        raise TooManyInterjections(
            f"The build `{cycle.build_id}` has {MOST_INTERJECTIONS} texts that its model was not shown yet.",
            build_id=cycle.build_id,
        )
    return revise(cycle, interjections=(*cycle.interjections, f"[USER INTERJECTION] {text}"), updated_at=now)
