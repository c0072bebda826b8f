"""Listed tests: those that a runner collects, beside those of its report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from aop.core.text.json import MalformedText, parse_json
from aop.kernel.gates.reports.coverage import LARGEST_REPORT
from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.test_comparison import told_names

_OF_GO = re.compile(r"^(.*?\.(?:Test|Fuzz|Example)\w*)/.*$", re.DOTALL)
"""A subtest of Go: no listing has it."""


class ListingDifference(Struct, frozen=True, kw_only=True):
    """The functions in which a report differs from the listing; a function stands for all of its parameters."""

    unreported: tuple[str, ...] = ()
    """Listed more often than the report has them."""
    unlisted: tuple[str, ...] = ()
    """In the report as passed, and not listed at all."""

    @property
    def text(self) -> str:
        """Return the sentence about the difference; empty if there is none."""
        parts = []
        if self.unreported:
            parts.append(f"the report leaves out {told_names(self.unreported)}")
        if self.unlisted:
            parts.append(f"it has {told_names(self.unlisted)}, which the runner does not list")
        if not parts:
            return ""
        return f"The report does not have the tests that the runner lists, so it proves nothing: {'; '.join(parts)}."


def listing_difference(listed: Iterable[str], cases: Sequence[ReportedTest]) -> ListingDifference:
    """Compare the listed tests with the cases of a report, function by function.

    A function may have more cases than are listed, such as subtests and reruns. A file that skips itself is a case that
    no listing has, so of what is not listed only passed cases count.
    """
    wanted = Counter(map(_function, listed))
    there = Counter(_function(case.name) for case in cases)
    passed = {_function(case.name) for case in cases if case.passed}
    return ListingDifference(
        unreported=tuple(sorted(wanted - there)), unlisted=tuple(sorted(passed.difference(wanted)))
    )


def pytest_names(listing: bytes) -> tuple[str, ...] | None:
    """Return the tests of a listing of pytest, as its report spells them; None if it cannot be read."""
    try:
        found = parse_json(listing, limit=LARGEST_REPORT)
    except MalformedText:
        return None
    if not isinstance(found, list):
        return None
    return tuple(_as_reported(each) for each in found if isinstance(each, str))


def _as_reported(node_id: str) -> str:
    path, *rest = node_id.partition("[")[0].split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *rest])


def _function(name: str) -> str:
    """Return a name without its parameters, whose ids may be random, its subtests, and the group that xdist adds."""
    name = _OF_GO.sub(r"\1", name)
    place, dot, function = name.partition("[")[0].rpartition(".")
    return f"{place}{dot}{function.partition('@')[0]}"
