"""Settings of a generation: turns, and the contracts written without tools."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.forge.contracts.types import ContractType

MOST_TURNS = 12


class GenerationSettings(Struct, frozen=True, kw_only=True):
    """The limits of the missions."""

    max_turns: int = MOST_TURNS
    turns: Mapping[ContractType, int] = {}
    """Other limits for single contracts (FORGE-148)."""
    snowball: frozenset[ContractType] = frozenset()
    """The contracts whose prompt holds everything; the others are written by tools (FORGE-234)."""

    def turns_of(self, contract_type: ContractType) -> int:
        """Return the most turns of a mission."""
        return self.turns.get(contract_type, self.max_turns)
