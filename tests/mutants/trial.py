"""One run of tests in a private copy: prints as JSON which test failed, or why that would prove nothing.

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

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "-m", "")
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


def main(module: str, tests: Sequence[str]) -> int:
    outcome = Outcome()
    try:
        importlib.import_module(module)
    except Exception as problem:  # noqa: BLE001 - whatever a changed module raises, it says that the change is no good
        outcome.broken.append(f"{module} does not import: {problem!r}")
    else:
        code = pytest.main([*OPTIONS, *tests], plugins=[outcome])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            outcome.broken.append(f"pytest ended with {code!r}")
    print("\n" + json.dumps(asdict(outcome)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
