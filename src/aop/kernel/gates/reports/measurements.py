"""Measurements of test tools: coverage, and the outcome of tests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct


class UnreadableReport(Exception):
    """A report that is damaged, hostile, of another kind, or in contradiction with itself."""


class Ratio(Struct, frozen=True, kw_only=True):
    """A count out of a total."""

    covered: int
    total: int

    @property
    def percent(self) -> str | None:
        """Return the per cent, truncated to two decimals so that 100.00 means all; None of a total of 0."""
        if not self.total:
            return None
        whole, decimals = divmod(self.covered * 10_000 // self.total, 100)
        return f"{whole}.{decimals:02}"

    def reaches(self, share: float) -> bool:
        """Tell whether this is at least a share of 1, exactly; a total of 0 reaches none."""
        # A share is written with a few decimals; as a whole number of billionths it is compared without rounding.
        return self.total > 0 and self.covered * 10**9 >= round(share * 10**9) * self.total


class CoverageReport(Struct, frozen=True, kw_only=True):
    """The line and branch coverage of a report; None where it has no figure."""

    line: Ratio | None = None
    branch: Ratio | None = None


class TestReport(Struct, frozen=True, kw_only=True):
    """The number of tests, and of those that did not pass."""

    tests: int
    failures: int
    errors: int
    skipped: int


class ReportedTest(Struct, frozen=True, kw_only=True):
    """One test by its full name, and whether it ran and passed; skipped is neither."""

    name: str
    passed: bool
    ran: bool = True
    outcome: Literal["passed", "failures", "errors", "skipped"] = "passed"
    """An error keeps a test from its end: it did not fail by an assertion."""
    reason: str = ""
    """The beginning of what the report says of the failure."""


Report = CoverageReport | TestReport


def ratio_of(covered: int, total: int) -> Ratio | None:
    """Return a ratio, or None for a total of 0. Raises: UnreadableReport."""
    if covered > total:
        raise UnreadableReport(f"it counts {covered} covered of {total}")
    return Ratio(covered=covered, total=total) if total else None


def share_of(hits: Collection[bool]) -> Ratio | None:
    """Return the ratio of hits."""
    return ratio_of(sum(hits), len(hits))


def count_in(text: str, what: str) -> int:
    """Return the number that a text spells in plain digits. Raises: UnreadableReport."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UnreadableReport(f"`{text[:40]}` is not a count ({what})")
    return int(text)
