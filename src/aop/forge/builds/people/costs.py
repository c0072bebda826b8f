"""Costs of a build against its cap: a ticker, one warning, one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from aop.core.errors import Json
from aop.forge.builds.documents import BuildCycle
from aop.kernel.config.workflows import BuildRules
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.usage import Sum

CostEvent = Literal["cost_ticker", "cost_warning", "cost_exceeded"]


class Told(Struct, frozen=True, kw_only=True):
    """An event about the cost of a build."""

    kind: CostEvent
    payload: Mapping[str, Json]


def cap_of(cycle: BuildCycle, rules: BuildRules) -> float:
    """Return the dollars that a build may cost; each resume of a build that reached its cap allows as much again."""
    return rules.max_usd * (1 + cycle.cap_raises)


def counted_cost(cycle: BuildCycle, rules: BuildRules, spent: Sum, now: str) -> tuple[BuildCycle, tuple[Told, ...]]:
    """Return the cycle with what it has cost so far, held if its cap is reached, and the events of that.

    Turns whose cost nobody reports count as nothing; the ticker says how many they are.
    """
    cost, cap = float(spent.known or 0), cap_of(cycle, rules)
    is_over = bool(cap) and cost >= cap
    is_warned = bool(cap) and cost >= cap * rules.warn_at
    facts: dict[str, Json] = {"build_id": cycle.build_id, "cost_usd": cost, "cap_usd": cap}
    told = [Told(kind="cost_ticker", payload={**facts, "unknown_turns": spent.unknown_turns})]
    if is_warned and not cycle.cost_warned:
        told.append(Told(kind="cost_warning", payload=facts))
    hold, why = cycle.hold, cycle.hold_reason
    if is_over and not hold:
        hold, why = "cost_cap", f"The build has cost {cost:.2f} USD of its cap of {cap:.2f} USD."
        told.append(Told(kind="cost_exceeded", payload={**facts, "reason": why}))
    known = revise(
        cycle, cost_usd=cost, cost_warned=is_warned or cycle.cost_warned, hold=hold, hold_reason=why, updated_at=now
    )
    return known, tuple(told)
