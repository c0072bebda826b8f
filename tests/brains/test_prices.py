"""Prices by name, for cached and long prompts, and unknown prices."""

from __future__ import annotations

import pytest

from aop.adapters.models.settings import BrainSettings
from aop.brains.conversation import TokenCounts
from aop.brains.prices import Price, Prices, read_prices
from aop.core.errors import InvalidConfiguration

MILLION = 1_000_000
PRICES = Prices(
    {
        "a:one": Price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5),
        "a:long": Price(input=1.0, output=2.0, above=200, long=Price(input=2.0, output=4.0)),
    }
)


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("a:one", TokenCounts(input_tokens=MILLION, output_tokens=MILLION), 12.0),
        ("a:one", TokenCounts(input_tokens=MILLION, output_tokens=0, cache_read_tokens=MILLION), 0.2),
        ("a:one", TokenCounts(input_tokens=MILLION, output_tokens=0, cache_write_tokens=MILLION), 2.5),
        ("a:one-20260131", TokenCounts(input_tokens=MILLION, output_tokens=0), 2.0),
        ("a:one-2026-01-31", TokenCounts(input_tokens=MILLION, output_tokens=0), 2.0),
        ("a:long", TokenCounts(input_tokens=200, output_tokens=100), 0.0004),
        ("a:long", TokenCounts(input_tokens=201, output_tokens=100), 0.000802),
        ("a:long", TokenCounts(input_tokens=100, output_tokens=0, cache_read_tokens=100), 0.0001),
        ("a:one-mini", TokenCounts(input_tokens=1, output_tokens=1), None),
        ("a:two", TokenCounts(input_tokens=1, output_tokens=1), None),
        ("a:one", TokenCounts(input_tokens=1), None),
        ("a:one", TokenCounts(), None),
    ],
)
def test_a_usage_costs(model: str, usage: TokenCounts, cost: float | None) -> None:
    assert PRICES.cost(model, usage) == cost


def test_the_shipped_table_is_readable_and_prices_of_ones_own_come_first() -> None:
    shipped = BrainSettings.from_env({"AOP_MODELS": "ollama:x"}, chosen=None, product=None).prices
    free = shipped.overlaid_by(Prices({"anthropic:claude-sonnet-5": Price(input=0.0, output=0.0)}))
    used = TokenCounts(input_tokens=MILLION, output_tokens=MILLION)
    assert (shipped.cost("anthropic:claude-sonnet-5", used), free.cost("anthropic:claude-sonnet-5", used)) == (
        12.0,
        0.0,
    )
    assert shipped.cost("ollama:x", used) is None


@pytest.mark.parametrize("text", ["[]", '{"a:one": {"input": 1}}', '{"a:one": {"input": 1, "output": 2, "x": 3}}', "{"])
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        read_prices(text.encode(), "prices.json")
    assert refused.value.message.startswith("`prices.json` is not a table of prices: ")


def test_unknown_and_anything_is_unknown() -> None:
    known = TokenCounts(input_tokens=1, output_tokens=2, cache_read_tokens=1)
    assert known.plus(known) == TokenCounts(input_tokens=2, output_tokens=4, cache_read_tokens=2)
    assert known.plus(TokenCounts()).total_tokens is None
