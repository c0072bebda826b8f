"""One run of tests in a private copy: tells in one line which test failed, or why that would prove nothing.

`python -m tests.mutants.trial MODULE TEST...`. The changed module must import, and the failure must be one of a test's
own: a collection that breaks, a fixture that breaks or a name that is not defined says nothing about a control.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import pytest

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "-m", "", "--rows", "all")
TOLD = "outcome: "
"""The beginning of the line that tells the outcome."""
BROKEN = (ImportError, NameError, SyntaxError)


@dataclass(eq=False)
class Outcome:
    """The tests that ran, that failed, and what broke beside them; a plugin of pytest that counts them."""

    ran: int = 0
    failed: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid} cannot be collected")

    def pytest_exception_interact(self, call: pytest.CallInfo[object], report: pytest.CollectReport) -> None:
        if call.excinfo is not None and call.excinfo.errisinstance(BROKEN):
            self.broken.append(f"{report.nodeid}: {call.excinfo.exconly()}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed and report.when == "call":
            self.failed.append(report.nodeid)
        elif report.failed:
            self.broken.append(f"{report.nodeid} broke in its {report.when}")


class ImportFirst:
    """Imports the changed module before any test is collected: a failure there is no failure of a test."""

    def __init__(self, module: str, outcome: Outcome) -> None:
        self._module = module
        self._outcome = outcome

    def pytest_sessionstart(self) -> None:
        try:
            importlib.import_module(self._module)
        except Exception as problem:  # noqa: BLE001 - whatever it raises, the change is no good
            self._outcome.broken.append(f"{self._module} does not import: {problem!r}")
            pytest.exit("the changed module does not import")


def main(module: str, tests: Sequence[str]) -> int:
    outcome = Outcome()
    try:
        code = pytest.main([*OPTIONS, *tests], plugins=[outcome, ImportFirst(module, outcome)])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not outcome.failed:
            outcome.broken.append(f"pytest ended with {code!r}")
    finally:
        # Also where pytest breaks at its end, as it does when the failed test left a file open.
        print(f"\n{TOLD}{json.dumps(asdict(outcome))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
