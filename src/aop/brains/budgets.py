"""Budgets of model calls and loops: limits and usage."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct

from aop.brains.conversation import NO_TOKENS, Thinking, TokenCounts


class Limit(StrEnum):
    """A limit that can be reached."""

    ITERATIONS = "iterations"
    TIME = "time"
    TOKENS = "tokens"
    COST = "cost"


class CallLimits(Struct, frozen=True, kw_only=True):
    """The limits of one model call."""

    max_output_tokens: int = 16_384
    timeout_seconds: float = 120.0
    thinking: Thinking | None = None


class LoopLimits(Struct, frozen=True, kw_only=True):
    """The limits of one loop; None means no limit."""

    max_iterations: int = 20
    max_seconds: float = 600.0
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    uncapped: frozenset[str] = frozenset()
    """The models without a price that a person lets work beyond a limit of cost, as `provider:model`."""
    max_calls_in_reply: int = 16
    max_observation_chars: int = 25_000
    """The part of a tool's answer that the model is shown."""


class LoopUsage(Struct, frozen=True, kw_only=True):
    """The usage of one loop."""

    iterations: int = 0
    seconds: float = 0.0
    usage: TokenCounts = NO_TOKENS
    cost_usd: float | None = 0.0
    """None: at least one reply had no known price."""

    def with_reply(self, usage: TokenCounts, cost_usd: float | None) -> LoopUsage:
        """Return the usage after one more reply."""
        cost = None if self.cost_usd is None or cost_usd is None else round(self.cost_usd + cost_usd, 9)
        return msgspec.structs.replace(
            self, iterations=self.iterations + 1, usage=self.usage.plus(usage), cost_usd=cost
        )

    def at(self, seconds: float) -> LoopUsage:
        """Return the same usage at another time."""
        return msgspec.structs.replace(self, seconds=seconds)


def limit_reached(limits: LoopLimits, spent: LoopUsage) -> Limit | None:
    """Return the limit that is reached, if any; unknown usage counts as reaching it."""
    if spent.iterations >= limits.max_iterations:
        return Limit.ITERATIONS
    if spent.seconds >= limits.max_seconds:
        return Limit.TIME
    if limits.max_tokens is not None and tokens_left(limits.max_tokens, spent) <= 0:
        return Limit.TOKENS
    if limits.max_cost_usd is not None and _is_cost_reached(limits.max_cost_usd, limits.uncapped, spent.cost_usd):
        return Limit.COST
    return None


def _is_cost_reached(most: float, uncapped: frozenset[str], cost_usd: float | None) -> bool:
    return not uncapped if cost_usd is None else cost_usd >= most


def next_call_limits(limits: LoopLimits, spent: LoopUsage, usual: CallLimits) -> CallLimits:
    """Return the limits of the next call: the usual ones, or what is left."""
    tokens = usual.max_output_tokens
    if limits.max_tokens is not None:
        tokens = min(tokens, tokens_left(limits.max_tokens, spent))
    seconds = min(usual.timeout_seconds, limits.max_seconds - spent.seconds)
    return msgspec.structs.replace(usual, max_output_tokens=tokens, timeout_seconds=seconds)


def tokens_left(max_tokens: int, spent: LoopUsage) -> int:
    """Return the tokens that are left; none if the usage was not reported."""
    used = spent.usage.total_tokens
    return 0 if used is None else max(0, max_tokens - used)
