"""Prices of tokens; a model without a price has an unknown cost, never zero."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Struct

from aop.brains.conversation import TokenCounts
from aop.core.errors import InvalidConfiguration

_MILLION = 1_000_000
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_DATED = re.compile(r"(.+?)-(?:\d{8}|\d{4}-\d{2}-\d{2})")


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    """None: the price of other input."""
    cache_write: Dollars | None = None
    above: int | None = None
    """Above this number of input tokens, all tokens of the request have the price `long`."""
    long: Price | None = None

    def cost(self, usage: TokenCounts) -> float | None:
        """Return the cost of one request, if its usage is known."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        if self.long is not None and self.above is not None and usage.input_tokens > self.above:
            return self.long.cost(usage)
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dear = fresh * self.input + usage.cache_read_tokens * read + usage.cache_write_tokens * write
        return round((dear + usage.output_tokens * self.output) / _MILLION, 9)


class PriceTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of a day."""

    date: str
    prices: dict[str, Price]


class Prices:
    """The prices of models by `provider:model`; a dated version has the price of its model."""

    def __init__(self, table: Mapping[str, Price]) -> None:
        self._table = dict(table)

    @property
    def table(self) -> Mapping[str, Price]:
        """Return each price by its model."""
        return self._table

    def of(self, model: str) -> Price | None:
        """Return the price of a model, if it is known."""
        if model in self._table:
            return self._table[model]
        dated = _DATED.fullmatch(model)
        return self._table.get(dated[1]) if dated else None

    def cost(self, model: str, usage: TokenCounts) -> float | None:
        """Return the cost of a usage in US dollars; None if it is unknown."""
        price = self.of(model)
        return None if price is None else price.cost(usage)

    def overlaid_by(self, own: Prices) -> Prices:
        """Return these prices, replaced by others where those exist."""
        return Prices({**self._table, **own._table})


def read_prices(data: bytes, source: str) -> Prices:
    """Parse a table of prices: a JSON object of `provider:model` and its price. Raises: InvalidConfiguration."""
    try:
        return Prices(msgspec.json.decode(data, type=dict[str, Price]))
    except msgspec.DecodeError as problem:
        raise InvalidConfiguration(
            f"`{source}` is not a table of prices: {problem}.",
            hint='Write `{"provider:model": {"input": 1.0, "output": 2.0}}`, in US dollars for a million tokens.',
        ) from problem
