"""The suite can fail: each of these bugs, put into `aop`, is found by killing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.soak.conftest import Prepared
from tests.soak.faults import PATCHED, PLAN, How, Operation, needs_strace, points_of
from tests.soak.wholeness import outcome_at

SEEDED = [
    pytest.param("in place", PATCHED, "write", "is torn", marks=pytest.mark.hostile("S02"), id="S02"),
    pytest.param("late ledger", PATCHED, "fdatasync", "given again, it ends with", id="late ledger"),
    pytest.param("no journal", PLAN, "renameat", "differs from the record", marks=pytest.mark.hostile("S03"), id="S03"),
]


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize(("bug", "operation", "syscall", "complaint"), SEEDED)
def test_a_bug_that_a_crash_turns_into_damage_is_found(
    prepared: Prepared, bug: str, operation: Operation, syscall: str, complaint: str, tmp_path: Path
) -> None:
    stage, _ = prepared(operation)
    program = (sys.executable, "-m", "tests.soak.seeded", bug)
    points = [each for each in points_of(stage, tmp_path, program) if each.syscall == syscall and not each.git]
    outcomes = (outcome_at(point, How.KILLED, stage, tmp_path, program=program) for point in points)
    assert any(complaint in line for outcome in outcomes for line in outcome.damage)
