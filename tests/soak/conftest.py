"""The repositories that the faults are tried on, made once; and the table of what became of each point."""

from __future__ import annotations

import compileall
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.soak.faults import ROOT, Operation, Point, Stage, points_of, staged

Prepared = Callable[[Operation], tuple[Stage, list[Point]]]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Returns the repository of an operation, and the points at which it writes."""

    @cache
    def prepare(operation: Operation) -> tuple[Stage, list[Point]]:
        folder = tmp_path_factory.mktemp(operation.stage)
        # The processes that are broken write no bytecode; without any, most of their time goes into compiling.
        compileall.compile_dir(ROOT / "src", quiet=1)
        stage = staged(operation, folder / "template")
        return stage, points_of(stage, folder)

    return prepare


KEYS = ("operation", "program", "system call", "fault")
COUNTS = ("points", "killed", "failed", "answered", "damaged")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for told in _noted(terminalreporter, "soak"):
        terminalreporter.write_line(told)
    counted: dict[tuple[str, ...], Counter[str]] = {}
    for (operation, program, syscall, fault), counts in _noted(terminalreporter, "crash point"):
        counted.setdefault((operation, program.split()[0], syscall, fault), Counter()).update(counts)
    if counted:
        terminalreporter.section("crash points")
        for row in (KEYS + COUNTS, ("---",) * 9, *(_row(key, counts) for key, counts in sorted(counted.items()))):
            terminalreporter.write_line("| " + " | ".join(row) + " |")
        total = sum(counted.values(), Counter[str]())
        terminalreporter.write_line(f"{total['points']} points, {total['damaged']} damaged")


def _noted(terminalreporter: pytest.TerminalReporter, wanted: str) -> Iterator[Any]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            # Setting up and tearing down are reported as well, with the same properties.
            if getattr(report, "when", "") == "call":
                yield from (value for name, value in report.user_properties if name == wanted)


def _row(key: tuple[str, ...], counts: Counter[str]) -> tuple[str, ...]:
    return (*key, *(str(counts[name]) for name in COUNTS))
