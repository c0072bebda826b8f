"""Spending: when one turn has used up a feature's caps."""

from __future__ import annotations

import pytest

from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import reaches_cap


@pytest.mark.parametrize(
    ("usage", "dollars", "tokens", "is_reached"),
    [
        (Usage(input_tokens=90, output_tokens=9), None, 100, False),
        (Usage(input_tokens=90, output_tokens=10), None, 100, True),
        (Usage(cost_usd=0.9), 1.0, None, False),
        (Usage(cost_usd=1.0), 1.0, None, True),
        (Usage(input_tokens=10**9, cost_usd=10.0**9), None, None, False),
        (Usage(), 1.0, 1, False),
    ],
    ids=["fewer tokens", "all tokens", "fewer dollars", "all dollars", "no caps", "nothing reported"],
)
def test_a_turn_reaches_a_cap_with_the_last_token_or_dollar(
    usage: Usage, dollars: float | None, tokens: int | None, *, is_reached: bool
) -> None:
    assert reaches_cap(usage, dollars=dollars, tokens=tokens) is is_reached
