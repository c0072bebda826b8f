"""`make soak`: every operation, broken at every system call that writes, in every way that it can break there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from tests.soak.conftest import Prepared
from tests.soak.faults import OPERATIONS, How, Operation, Point, needs_strace, spread
from tests.soak.wholeness import Outcome, outcome_at

MOST_POINTS = int(os.environ.get("AOP_SOAK_POINTS", "100"))
"""Of one system call of one program; where there are more, a spread of so many is taken."""

Note = Callable[[str, object], None]

FAULTS = [
    pytest.param("aop", How.KILLED, id="aop killed"),
    pytest.param("git", How.KILLED, id="git killed"),
    pytest.param("both", How.KILLED, id="aop and git killed"),
    pytest.param("aop", How.DISK_FULL, id="aop on a full disk"),
    pytest.param("git", How.DISK_FULL, id="git on a full disk"),
    pytest.param("aop", How.DISK_BROKEN, id="aop on a broken disk"),
    pytest.param("git", How.DISK_BROKEN, id="git on a broken disk"),
]


@needs_strace
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("program", "how"), FAULTS)
def test_broken_at_any_writing_call_it_is_whole_and_done_once_when_it_is_given_again(
    prepared: Prepared, operation: Operation, program: str, how: How, tmp_path: Path, record_property: Note
) -> None:
    stage, points = prepared(operation)
    chosen = [
        point for point in points if bool(point.git) == (program != "aop") and (point.to_disk or how is How.KILLED)
    ]
    damaged = []
    for (name, syscall), some in groupby(sorted(chosen, key=_place), key=_place):
        outcomes = [
            outcome_at(point, how, stage, tmp_path, with_parent=program == "both")
            for point in spread(list(some), MOST_POINTS)
        ]
        place = (operation.name, name, syscall, f"{program} {how.name.lower()}")
        record_property("crash point", (place, _counts(outcomes)))
        damaged += [outcome for outcome in outcomes if outcome.damage]
    assert damaged == []


def _place(point: Point) -> tuple[str, str]:
    return point.program, point.syscall


def _counts(outcomes: list[Outcome]) -> dict[str, int]:
    ended = Counter(outcome.ending for outcome in outcomes)
    return {**ended, "points": len(outcomes), "damaged": sum(bool(outcome.damage) for outcome in outcomes)}
