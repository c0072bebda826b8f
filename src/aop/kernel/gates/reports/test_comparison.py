"""Comparison of tests by name: those of a run beside those of the base."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from aop.core.ids import CommitId
from aop.core.text.counts import count, list_some
from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.named_tests import is_test_file, names_test
from aop.kernel.ports.git import GitObjects
from aop.kernel.record.documents.gate_runs import TestBaseline, TestChange, TestComparison

MOST_NAMES = 500
"""As many names a list of the evidence holds; its count goes on."""
LONGEST_NAME = 400
MOST_TOLD = 10
_CHANCE = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?"
    r"|\b[0-9a-fA-F]{16,}\b|\d+\.\d{9,}(?:e-?\d+)?|\d{9,}"
)
"""A UUID, a time, a hash, a random share and a large number."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


class TestNames(Struct, frozen=True, kw_only=True):
    """The tests that ran, by name and sorted; one that ran twice stands there twice."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def names_of(cases: Iterable[ReportedTest], checkout: Path) -> TestNames:
    """Return the names of the tests that ran in a checkout, each as in every other run."""
    ran = [(_steady_name(case.name, f"{checkout}/"), case.passed) for case in cases if case.ran]
    return TestNames(
        passed=tuple(sorted(name for name, passed in ran if passed)),
        failed=tuple(sorted(name for name, passed in ran if not passed)),
    )


def _steady_name(name: str, checkout: str) -> str:
    """Return a name without the folder that it ran in, and without addresses of objects."""
    steady = _ADDRESS.sub("0x", name.replace(checkout, ""))
    if len(steady) <= LONGEST_NAME:
        return steady
    return f"{steady[: LONGEST_NAME - 16]}{hashlib.sha256(steady.encode()).hexdigest()[:16]}"


def compare_tests(names: TestNames, base: TestBaseline) -> tuple[TestComparison, tuple[str, ...]]:
    """Compare a run with the base; return the evidence, and all tests of the base that did not pass."""
    on_base = (*(base.passed or ()), *base.failed)
    removed, added = absent_names(on_base, names.passed), absent_names(names.passed, on_base)
    comparison = TestComparison(
        passed_sha256=_digest(names.passed),
        base_sha256=_digest(sorted(on_base)),
        removed=removed[:MOST_NAMES],
        removed_count=len(removed),
        added=added[:MOST_NAMES],
        added_count=len(added),
    )
    return comparison, removed


def absent_names(wanted: Iterable[str], there: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are wanted, and are not there as often; parts that chance makes are not compared."""
    left, absent = Counter(map(_without_chance, there)), []
    for name in sorted(wanted):
        key = _without_chance(name)
        left[key] -= 1
        if left[key] < 0:
            absent.append(name)
    return tuple(absent)


def _without_chance(name: str) -> str:
    """Return a name whose parameters have no random numbers, hashes and times in them."""
    place, bracket, parameters = name.partition("[")
    return f"{place}{bracket}{_CHANCE.sub('*', parameters)}" if bracket else name


class Excuses(Struct, frozen=True, kw_only=True):
    """The tests of the base that a plan removes or changes, and the files that they can lie in."""

    changes: tuple[TestChange, ...] = ()
    files: tuple[str, ...] = ()
    """The files of the base."""

    def unnamed(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Return the tests that the plan does not name."""
        return tuple(test for test in tests if not any(self._names(change, test) for change in self.changes))

    def _names(self, change: TestChange, test: str) -> bool:
        return names_test(change.test, test, self.files)


def excuses_of(objects: GitObjects, base: CommitId, changes: Sequence[TestChange]) -> Excuses:
    """Return the excuses of a plan on a base."""
    entries = objects.entries(objects.tree_of(base)) if changes else ()
    return Excuses(changes=tuple(changes), files=tuple(each.path for each in entries if is_test_file(each.path)))


def told_names(names: Sequence[str]) -> str:
    """Return the first names of a list, for a message."""
    return list_some([f"`{name}`" for name in dict.fromkeys(names)], MOST_TOLD)


def removal_text(tests: Sequence[str]) -> str:
    """Return the sentence about tests of the base that did not pass in a run."""
    return (
        f"{count(len(tests), 'test')} of the base did not run and pass: {told_names(tests)}. A test that is removed or"
        " renamed on purpose is named in `test_changes` of the plan, with the reason."
    )


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{name}\n" for name in names).encode()).hexdigest()
