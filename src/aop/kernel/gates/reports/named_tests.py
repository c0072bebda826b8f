"""Named tests: their outcome in a report, whichever way each spells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from aop.kernel.gates.reports.measurements import ReportedTest

Fate = Literal["passed", "not_passed", "absent"]
_ENDINGS = (".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".java", ".kt", ".rs", ".go")


def fates_of_tests(named: Sequence[str], cases: Iterable[ReportedTest]) -> dict[str, Fate]:
    """Return the outcome of each named test: passed only if it has cases and all passed."""
    wanted = {name: dotted_name(name) for name in named}
    outcomes: dict[str, list[bool]] = {name: [] for name in named}
    for case in cases:
        whole = dotted_name(case.name)
        plain = dotted_name(case.name.partition("[")[0])
        for name, spelling in wanted.items():
            if _is_same(spelling, whole) or _is_same(spelling, plain):
                outcomes[name].append(case.passed)
    return {name: _fate(passed) for name, passed in outcomes.items()}


def dotted_name(name: str) -> str:
    """Return a name with dots between its parts: `tests/test_csv.py::test_header` is `tests.test_csv.test_header`."""
    file, separator, rest = name.strip().partition("::")
    if not separator:
        return file
    for ending in _ENDINGS:
        file = file.removesuffix(ending)
    return f"{file.replace('/', '.')}.{rest.replace('::', '.')}"


def _is_same(named: str, reported: str) -> bool:
    # A report may omit the first folders, and a plan may omit the file.
    return named == reported or reported.endswith(f".{named}") or ("." in reported and named.endswith(f".{reported}"))


def _fate(passed: Sequence[bool]) -> Fate:
    if not passed:
        return "absent"
    return "passed" if all(passed) else "not_passed"
