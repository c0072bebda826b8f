"""Flaws: rules that a simulation can take away, to show that it would notice."""

from __future__ import annotations

from enum import StrEnum

from aop.adapters.fleet.rules import Contact


class Flaw(StrEnum):
    """A rule that does not hold."""

    NO_OWNER = "no-owner"
    """Every answer to a run is taken, whoever sends it: DBOS refuses those of a former owner."""
    NO_EPOCH = "no-epoch"
    """Every leader records: the record refuses those of an earlier epoch."""
    NO_FENCE = "no-fence"
    """A worker without the database goes on with steps that reach the network."""
    HASTY_JUDGE = "hasty-judge"
    """Who has just been cut off judges others."""
    NO_JUDGE = "no-judge"
    """Nobody is declared dead."""
    FORGOTTEN_CLAIMS = "forgotten-claims"
    """A worker forgets a claim that the database took, but whose answer was lost with the connection."""


class FlawedContact(Contact):
    """A worker's contact with the database, without some of its rules."""

    def __init__(self, now: float, flaws: frozenset[Flaw]) -> None:
        super().__init__(now)
        self._flaws = flaws

    def is_cut_off(self, now: float) -> bool:
        return Flaw.NO_FENCE not in self._flaws and super().is_cut_off(now)

    def may_judge(self, now: float) -> bool:
        return Flaw.HASTY_JUDGE in self._flaws or super().may_judge(now)
