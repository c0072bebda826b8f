"""Seal verdict: what the score says, and what no score makes up for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck

SealVerdict = Literal["CERTIFIED", "CONDITIONAL", "FLAGGED"]
BEST_FIRST: tuple[SealVerdict, ...] = ("CERTIFIED", "CONDITIONAL", "FLAGGED")
CERTIFIED_FROM, CONDITIONAL_FROM = 90, 70
FLAGGING = frozenset({"A8", "W1"})
"""The checks of which a failure flags a build: its tests, and secrets in its files."""


class Bound(Struct, frozen=True, kw_only=True):
    """The best verdict that a finding allows, whatever the score."""

    best: SealVerdict
    told: str


def bounds_of(checks: Sequence[AuditCheck], *, unsigned: int) -> tuple[Bound, ...]:
    """Return the bounds of a verdict: for checks that fail or were not computed, and phases that nobody signed off."""
    failed = [check for check in checks if check.verdict == "FAIL"]
    flagging = [check for check in failed if check.code in FLAGGING]
    found = (
        _bound("FLAGGED", "failed", flagging),
        _bound("CONDITIONAL", "failed", [check for check in failed if check not in flagging]),
        _bound("CONDITIONAL", "could not be computed", [check for check in checks if check.verdict == "ERROR"]),
    )
    phases = f"{count(unsigned, 'phase')} not signed off on what is sealed."
    undone = (Bound(best="CONDITIONAL", told=f"At most CONDITIONAL, whatever the score: {phases}"),) if unsigned else ()
    return (*(bound for bound in found if bound is not None), *undone)


def _bound(best: SealVerdict, what: str, checks: Sequence[AuditCheck]) -> Bound | None:
    if not checks:
        return None
    told = ", ".join(f"{check.code} {check.name}" for check in checks)
    most = best if best == BEST_FIRST[-1] else f"At most {best}"
    return Bound(best=best, told=f"{most}, whatever the score: {told} {what}.")


def verdict_of(score: float, bounds: Sequence[Bound] = ()) -> SealVerdict:
    """Return the verdict of a score within its bounds."""
    return max((_scored(score), *(bound.best for bound in bounds)), key=BEST_FIRST.index)


def _scored(score: float) -> SealVerdict:
    if score >= CERTIFIED_FROM:
        return "CERTIFIED"
    return "CONDITIONAL" if score >= CONDITIONAL_FROM else "FLAGGED"
