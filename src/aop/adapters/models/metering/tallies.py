"""Tallies of a meter: tokens, cost and caps."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from aop.brains.conversation import NO_TOKENS, TokenCounts
from aop.brains.prices import Prices
from aop.core.errors import AgentNotLoggedIn, ModelQuotaReached, ProviderOverloaded, ProviderPaymentRequired
from aop.kernel.record.documents.usage import Trouble, Usage

_NEWEST = 1000
_TROUBLES_IN_A_ROW = 3
"""Programs try again by themselves; so many troubles in a row end the turn."""
_LONGEST_RETRY_SECONDS = 60.0
"""A program that has got answers waits by itself for a limit, up to this time; its turn goes on then."""
_PERSISTENT = frozenset({AgentNotLoggedIn.code, ProviderPaymentRequired.code})
_LIMITING = frozenset({ModelQuotaReached.code, ProviderOverloaded.code})


class Caps(Struct, frozen=True, kw_only=True):
    """The caps of a session; None means no cap."""

    cost_usd: float | None = None
    tokens: int | None = None
    uncapped: frozenset[str] = frozenset()
    """The models without a price that a person lets work beyond a cap of cost, as `provider:model`."""


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
    trouble: Trouble | None = None
    """The provider's trouble; None if it answered well, or refused this request alone."""
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
    trouble: Trouble | None = None
    """The provider's trouble with the newest request; None if that was answered well."""
    answered: int = 0
    """The number of requests to a model that were answered well."""
    waiting: int = 0
    """The number of requests to a model that the provider has not answered, or not to the end."""
    host: str = ""
    """The provider's host."""

    @property
    def turn_usage(self) -> Usage:
        """Return the usage as a worker's turn reports it."""
        return turn_usage(self.usage, self.cost_usd, estimated=self.estimated > 0)


def turn_usage(tokens: TokenCounts, cost_usd: float | None, *, estimated: bool = False) -> Usage:
    """Return tokens and their cost as a worker's turn reports them."""
    return Usage(
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_input_tokens=tokens.cache_read_tokens,
        cost_usd=cost_usd,
        estimated=estimated,
    )


class Tally:
    """Counts exchanges, from any thread."""

    def __init__(
        self, caps: Caps, prices: Prices, keep: Callable[[Usage], None] = lambda _usage: None, *, host: str = ""
    ) -> None:
        """Take the caps, the prices, a function that stores each new count, and the provider's host."""
        self._host = host
        self._keep = keep
        self._caps = caps
        self._prices = prices
        self._lock = threading.Lock()
        self._usage = NO_TOKENS
        self._cost: float | None = 0.0
        self._priced_cost = 0.0
        """That of the models with a price, which a cap holds for even if the whole cost is unknown."""
        self._estimated = 0
        self._outcomes: Counter[str] = Counter()
        self._removed: Counter[str] = Counter()
        self._newest: deque[CountedExchange] = deque(maxlen=_NEWEST)
        self._troubles: list[Trouble] = []
        """The newest ones in a row."""
        self._answered = 0
        self._waiting = 0

    def begin(self) -> None:
        """Note that a model is asked."""
        with self._lock:
            self._waiting += 1

    def add(self, exchange: CountedExchange) -> None:
        """Count an exchange."""
        used = exchange.usage != NO_TOKENS
        cost = self._prices.cost(exchange.model, exchange.usage) if used else 0.0
        with self._lock:
            self._usage = self._usage.plus(exchange.usage)
            self._cost = None if cost is None or self._cost is None else round(self._cost + cost, 9)
            self._priced_cost = round(self._priced_cost + (cost or 0.0), 9)
            self._estimated += exchange.is_estimated
            self._outcomes[exchange.outcome.value] += 1
            self._removed.update(exchange.removed)
            self._newest.append(exchange)
            self._note_trouble(exchange)
        self._keep(self.report().turn_usage)

    def _note_trouble(self, exchange: CountedExchange) -> None:
        is_left = exchange.outcome is Outcome.AGENT_LEFT
        if exchange.trouble is not None:
            self._troubles.append(exchange.trouble)
        elif exchange.model and not is_left:
            self._troubles.clear()
            self._answered += exchange.outcome in (Outcome.ANSWERED, Outcome.CUT_OFF)
        if exchange.model and not is_left and self._waiting:
            self._waiting -= 1

    def ending_trouble(self) -> Trouble | None:
        """Return the trouble that ends the turn, since trying again in it would not help; None if there is none."""
        with self._lock:
            troubles, has_answers = list(self._troubles), self._answered > 0
        if not troubles:
            return None
        last = troubles[-1]
        is_long = (last.retry_after_seconds or 0) > _LONGEST_RETRY_SECONDS
        is_limit = last.kind in _LIMITING and (is_long or not has_answers)
        is_final = last.kind in _PERSISTENT or is_limit or len(troubles) >= _TROUBLES_IN_A_ROW
        return last if is_final else None

    def refusal_reason(self, model: str) -> str:
        """Return why the next request must be refused, or nothing."""
        with self._lock:
            tokens, cost, priced = self._usage.total_tokens or 0, self._cost, self._priced_cost
        if self._caps.tokens is not None and tokens >= self._caps.tokens:
            return f"This session has used {tokens} of its {self._caps.tokens} tokens."
        if self._caps.cost_usd is None or self._is_uncapped(model):
            return ""
        is_unknown = cost is None and not self._caps.uncapped
        if is_unknown or (model and self._prices.of(model) is None):
            return f"This session is capped at {self._caps.cost_usd:g} USD, but the price of `{model}` is unknown."
        over = priced >= self._caps.cost_usd
        return f"This session has used {priced:g} of its {self._caps.cost_usd:g} USD." if over else ""

    def _is_uncapped(self, model: str) -> bool:
        """Tell whether a person lets a model work without a cap; one with a price is capped all the same."""
        # The provider may be asked for a dated version of a model.
        names = tuple(f"{name}-" for name in self._caps.uncapped)
        is_named = model in self._caps.uncapped or model.startswith(names)
        return is_named and self._prices.of(model) is None

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
                trouble=self._troubles[-1] if self._troubles else None,
                answered=self._answered,
                waiting=self._waiting,
                host=self._host,
            )
