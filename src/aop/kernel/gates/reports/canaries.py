"""Canaries: tests of AOP's own in a report, one to pass and one to fail.

Their names are made anew for each run, so that no code can know them before. A run whose canaries answer wrong was not
made by a runner that tells pass from fail, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from aop.kernel.gates.reports.measurements import ReportedTest, TestReport


class Canary(Struct, frozen=True, kw_only=True):
    """The canaries of one step."""

    step: str
    """The name of the step."""
    token: str
    """Letters and digits that are part of their names, and of nothing else."""

    @property
    def passing(self) -> str:
        """Return the name of the test that must pass."""
        return f"test_{self.token}_p"

    @property
    def failing(self) -> str:
        """Return the name of the test that must fail."""
        return f"test_{self.token}_f"


class WithoutCanaries(Struct, frozen=True, kw_only=True):
    """A report without the canaries in it."""

    report: TestReport
    cases: tuple[ReportedTest, ...]
    answered: bool
    """Whether each of them is there once, with the right outcome; False if there were none to look for."""


def take_out_canaries(report: TestReport, cases: Sequence[ReportedTest], canaries: Sequence[Canary]) -> WithoutCanaries:
    """Return a report as it would be without canaries, and whether they answered as they must."""
    expected = {name: name == each.passing for each in canaries for name in (each.passing, each.failing)}
    found = [(case.name.rpartition(".")[2], case) for case in cases]
    own = [(name, case) for name, case in found if name in expected]
    answers = sorted((name, case.passed) for name, case in own if case.ran)
    failures = sum(not case.passed for _, case in own if case.ran)
    without = msgspec.structs.replace(
        report,
        tests=max(0, report.tests - len(own)),
        failures=max(0, report.failures - failures),
        skipped=max(0, report.skipped - sum(not case.ran for _, case in own)),
    )
    return WithoutCanaries(
        report=without,
        cases=tuple(case for name, case in found if name not in expected),
        answered=bool(expected) and answers == sorted(expected.items()),
    )
