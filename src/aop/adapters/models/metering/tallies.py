"""Tallies of a meter: tokens, cost and caps."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from aop.adapters.models.metering.quotas import Quota
from aop.brains.conversation import NO_TOKENS, TokenCounts
from aop.brains.prices import Prices
from aop.kernel.record.documents.usage import Usage

_NEWEST = 1000


class Caps(Struct, frozen=True, kw_only=True):
    """The caps of a session; None means no cap."""

    cost_usd: float | None = None
    tokens: int | None = None


class Outcome(StrEnum):
    """The outcome of a request."""

    ANSWERED = "answered"
    PROVIDER_REFUSED = "provider_refused"
    CUT_OFF = "cut_off"
    """It ended before its tokens were reported, or was not a model's answer."""
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    AGENT_LEFT = "agent_left"
    OVER_CAP = "over_cap"
    NOT_ALLOWED = "not_allowed"
    PROVIDER_TOOL = "provider_tool"
    """It asked for the provider's own tools, and was refused here."""
    UNKNOWN_PART = "unknown_part"
    """It had a part that could carry such tools, and was refused here."""


class CountedExchange(Struct, frozen=True, kw_only=True):
    """The figures of one request and its answer, without their text."""

    path: str
    model: str = ""
    """As `provider:model`; empty if no model was asked."""
    status: int
    outcome: Outcome
    usage: TokenCounts = NO_TOKENS
    is_estimated: bool = False
    """Whether the tokens are estimated from the bytes, for lack of a report."""
    first_byte_seconds: float | None = None
    seconds: float
    removed: tuple[str, ...] = ()
    """The provider's own tools that were removed from the request."""
    quota: Quota | None = None
    """The limit that a refusal of the provider tells of."""
    said: str = ""
    """Why the meter refused it; empty if it did not."""


class MeterReport(Struct, frozen=True, kw_only=True):
    """The counts of a session."""

    usage: TokenCounts
    cost_usd: float | None
    """None: one of the models has no known price."""
    estimated: int
    """The number of requests with estimated tokens."""
    outcomes: Mapping[str, int]
    removed: Mapping[str, int]
    """The provider's own tools that were removed, and from how many requests."""
    exchanges: tuple[CountedExchange, ...]
    """The newest exchanges."""

    @property
    def turn_usage(self) -> Usage:
        """Return the usage as a worker's turn reports it."""
        return turn_usage(self.usage, self.cost_usd)


def turn_usage(tokens: TokenCounts, cost_usd: float | None) -> Usage:
    """Return tokens and their cost as a worker's turn reports them."""
    return Usage(
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_input_tokens=tokens.cache_read_tokens,
        cost_usd=cost_usd,
    )


class Tally:
    """Counts exchanges, from any thread."""

    def __init__(self, caps: Caps, prices: Prices, keep: Callable[[Usage], None] = lambda _usage: None) -> None:
        """Take the caps, the prices and a function that stores each new count."""
        self._keep = keep
        self._caps = caps
        self._prices = prices
        self._lock = threading.Lock()
        self._usage = NO_TOKENS
        self._cost: float | None = 0.0
        self._estimated = 0
        self._outcomes: Counter[str] = Counter()
        self._removed: Counter[str] = Counter()
        self._newest: deque[CountedExchange] = deque(maxlen=_NEWEST)

    def add(self, exchange: CountedExchange) -> None:
        """Count an exchange."""
        used = exchange.usage != NO_TOKENS
        cost = self._prices.cost(exchange.model, exchange.usage) if used else 0.0
        with self._lock:
            self._usage = self._usage.plus(exchange.usage)
            self._cost = None if cost is None or self._cost is None else round(self._cost + cost, 9)
            self._estimated += exchange.is_estimated
            self._outcomes[exchange.outcome.value] += 1
            self._removed.update(exchange.removed)
            self._newest.append(exchange)
        self._keep(self.report().turn_usage)

    def refusal_reason(self, model: str) -> str:
        """Return why the next request must be refused, or nothing."""
        with self._lock:
            tokens, cost = self._usage.total_tokens or 0, self._cost
        if self._caps.tokens is not None and tokens >= self._caps.tokens:
            return f"This session has used {tokens} of its {self._caps.tokens} tokens."
        if self._caps.cost_usd is None:
            return ""
        if cost is None or (model and self._prices.of(model) is None):
            return f"This session is capped at {self._caps.cost_usd:g} USD, but the price of `{model}` is unknown."
        over = cost >= self._caps.cost_usd
        return f"This session has used {cost:g} of its {self._caps.cost_usd:g} USD." if over else ""

    def report(self) -> MeterReport:
        """Return the counts so far."""
        with self._lock:
            return MeterReport(
                usage=self._usage,
                cost_usd=self._cost,
                estimated=self._estimated,
                outcomes=dict(sorted(self._outcomes.items())),
                removed=dict(sorted(self._removed.items())),
                exchanges=tuple(self._newest),
            )
