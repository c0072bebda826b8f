"""Red tests: the tests of a report that failed by an assertion of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.named_tests import Fate, fates_of_tests

_RAISED = re.compile(r"^(?:[\w$]+[.$])*([A-Z]\w*(?:Error|Exception|Failure|Exit|Interrupt|Warning|Iteration))\b")
_ASSERTIONS = frozenset({"AssertionError", "AssertionFailedError", "ComparisonFailure", "JestAssertionError"})
_NOT_BEGUN = re.compile(
    r"no module named|cannot (?:find|import|resolve)|failed to (?:resolve|load|run)|\[(?:build|setup) failed\]"
    r"|(?:Reference|Type|Syntax)Error\b|\bis not (?:defined|a function)\b|could not compile",
    re.IGNORECASE,
)
_MOST_NAMED = 10
HOW_TO_BEGIN = (
    "Code that does not exist yet begins as a stub that returns a wrong value, and the test imports it in its own body."
    " If the code raises today, the test catches that and asserts that it does not."
)


def red_tests(cases: Sequence[ReportedTest]) -> tuple[str, ...]:
    """Return the tests that failed by an assertion of their own."""
    return tuple(dict.fromkeys(case.name for case in cases if _is_red(case)))


def _is_red(case: ReportedTest) -> bool:
    return case.outcome == "failures" and is_assertion(case.reason)


def is_assertion(reason: str) -> bool:
    """Tell whether a failure is that of an assertion: neither an import that failed nor any other exception."""
    raised = _RAISED.match(reason)
    return raised[1] in _ASSERTIONS if raised else not _NOT_BEGUN.search(reason)


def red_problem(cases: Sequence[ReportedTest]) -> str:
    """Return why a report is not red for the right reason; empty if it is."""
    broken = [case for case in cases if case.outcome in ("failures", "errors") and not _is_red(case)]
    if broken:
        said = f" ({broken[0].reason.splitlines()[0][:200]})" if broken[0].reason else ""
        return (
            f"A test broke before it could fail: {names_of([case.name for case in broken])}{said}. An import error, a"
            " collection error, an error of a fixture or another exception is not the failure that a RED step is"
            f" about. Make it fail by an assertion. {HOW_TO_BEGIN}"
        )
    return "" if red_tests(cases) else "No test failed by an assertion."


def tests_with_fate(named: Sequence[str], cases: Sequence[ReportedTest], *fates: Fate) -> tuple[str, ...]:
    """Return the tests whose outcome in a report is one of these."""
    return tuple(name for name, fate in fates_of_tests(named, cases).items() if fate in fates)


def names_of(tests: Sequence[str]) -> str:
    """Return the names of some tests for a message."""
    more = f" and {len(tests) - _MOST_NAMED} more" if len(tests) > _MOST_NAMED else ""
    return ", ".join(f"`{name[:200]}`" for name in tests[:_MOST_NAMED]) + more
