"""The repositories that the faults are tried on, made once; and the table of what became of each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.soak.faults import Operation, Point, Stage, points_of, staged

Prepared = Callable[[Operation], tuple[Stage, list[Point]]]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Returns the repository of an operation, and the points at which it writes."""

    @cache
    def prepare(operation: Operation) -> tuple[Stage, list[Point]]:
        folder = tmp_path_factory.mktemp(operation.stage)
        stage = staged(operation, folder / "template")
        return stage, points_of(stage, folder)

    return prepare


HEADINGS = ("operation", "program", "system call", "fault", "points", "killed", "failed", "answered", "damaged")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = sorted(_rows(terminalreporter))
    if rows:
        terminalreporter.section("crash points")
        for row in (HEADINGS, ("---",) * len(HEADINGS), *rows):
            terminalreporter.write_line("| " + " | ".join(map(str, row)) + " |")
        terminalreporter.write_line(f"{sum(row[4] for row in rows)} points, {sum(row[8] for row in rows)} damaged")


def _rows(terminalreporter: pytest.TerminalReporter) -> Iterator[Any]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "crash point":
                    yield tuple(value)
