"""Ages are one number and its unit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aop.core.clock import age, duration

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_a_time_span_has_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_counts_from_a_moment_of_the_record() -> None:
    assert (age("2026-01-02T11:57:00.000Z", NOON), age("", NOON)) == ("3 min ago", "")
