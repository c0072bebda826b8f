"""Named tests: their outcome and their file, whichever way each spells them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from aop.kernel.gates.reports.measurements import ReportedTest

Fate = Literal["passed", "not_passed", "absent"]
_OF_GO = re.compile(r"(?:^|\.)(?:Test|Fuzz|Example|Benchmark)\w*(?:/|$)")
"""A function that Go runs, with its subtests; a file at the root of a module would else stand for every test."""
_SUBTEST = re.compile(r"(?<=\.)(?P<test>(?:Test|Fuzz)\w*)/.*", re.DOTALL)
_ENDINGS = (".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".java", ".kt", ".rs", ".go")


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
    return f"{_without_ending(file).replace('/', '.')}.{rest.replace('::', '.')}"


def is_test_file(name: str) -> bool:
    """Tell whether a name is that of a whole file, and not of a test in it."""
    return "::" not in name and name.endswith(_ENDINGS)


def names_test(named: str, test: str, files: Sequence[str] = ()) -> bool:
    """Tell whether a name in a plan means a test of a report: the test, its class, or its whole file.

    `files` are those of the tree: a test that may lie in several lies in the one that has most of its name.
    """
    named = named.strip()
    if is_test_file(named):
        return _belongs_to(test, named, files)
    file, _, rest = named.partition("::")
    plain = test.partition("[")[0]
    spellings = (test, plain, _SUBTEST.sub(r"\g<test>", test))
    if any(_is_same(dotted_name(named), dotted_name(spelled)) for spelled in spellings):
        return True
    inside = rest.replace("::", ".")
    if not inside or not _belongs_to(test, file, files):
        return False
    return any(spelled.endswith(f".{inside}") for spelled in spellings) or f".{inside}." in plain


def _belongs_to(test: str, path: str, files: Sequence[str]) -> bool:
    """Tell whether a test lies in a file, and has no more of the name of another one: `tests.py` is not `tests/`."""
    own = _shared_length(test, path)
    return lies_in(test, path) and not any(_shared_length(test, each) > own for each in files if own and each != path)


def _shared_length(test: str, path: str) -> int:
    """Return how much of a test's name is that of a file; 0 where names of tests do not begin with it."""
    if path.endswith((".go", ".rs")):
        return 0
    spelled = test.replace("::", ".").replace("/", ".")
    return max((len(ending) for ending in _endings(path) if spelled.startswith(f"{ending}.")), default=0)


def lies_in(test: str, path: str) -> bool:
    """Tell whether a test may lie in a file, by its name in the report: a report may omit the first folders."""
    spelled = test.replace("::", ".").replace("/", ".")
    if path.endswith("_test.go"):
        # Go names the package, which is a folder.
        folder = path.rpartition("/")[0].replace("/", ".")
        return _OF_GO.search(test) is not None and (not folder or f".{folder}." in f".{spelled}")
    endings = _endings(path)
    if path.endswith(".rs"):
        # The name of the package comes first.
        return any(f".{ending}." in f".{spelled}" for ending in endings)
    return any(spelled.startswith(f"{ending}.") for ending in endings)


def _endings(path: str) -> list[str]:
    parts = _without_ending(path).split("/")
    return [".".join(parts[first:]) for first in range(len(parts))]


def _without_ending(path: str) -> str:
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    return path


def _is_same(named: str, reported: str) -> bool:
    # A report may omit the first folders, and a plan may omit the file.
    return named == reported or reported.endswith(f".{named}") or ("." in reported and named.endswith(f".{reported}"))


def _fate(passed: Sequence[bool]) -> Fate:
    if not passed:
        return "absent"
    return "passed" if all(passed) else "not_passed"
