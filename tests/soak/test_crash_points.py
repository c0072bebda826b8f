"""A few of the points of `make soak`, on every run of the tests: the steps that make something last."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.soak.conftest import Prepared
from tests.soak.faults import DURABLE, LOCK, MERGE, OPERATIONS, PATCHED, WITH_GIT, How, Operation, needs_strace, spread
from tests.soak.wholeness import outcome_at


@needs_strace
@pytest.mark.slow
@pytest.mark.req("AOP-026", "AOP-259")
@pytest.mark.hostile("S01")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_killed_before_a_lasting_step_it_is_whole_and_done_once_when_it_is_given_again(
    prepared: Prepared, operation: Operation, tmp_path: Path
) -> None:
    stage, points = prepared(operation)
    lasting = [point for point in points if point.syscall in DURABLE and not point.git]
    assert len(lasting) >= 8
    outcomes = [outcome_at(point, How.KILLED, stage, tmp_path) for point in spread(lasting, 4)]
    assert [(each.ending, each.damage) for each in outcomes] == [("killed", [])] * 4


@needs_strace
@pytest.mark.slow
@pytest.mark.hostile("S35")
@pytest.mark.parametrize("operation", [PATCHED, LOCK], ids=lambda operation: operation.name)
def test_an_old_file_that_was_exchanged_and_not_removed_any_more_is_removed_by_the_next_command(
    prepared: Prepared, operation: Operation, tmp_path: Path
) -> None:
    stage, points = prepared(operation)
    removals = [then for point, then in pairwise(points) if point.syscall == "renameat2" and "unlink" in then.syscall]
    assert len(removals) == 3
    faults = [(point, How.KILLED) for point in removals] + [(removals[0], How.DISK_FULL)]
    assert [outcome_at(point, how, stage, tmp_path).damage for point, how in faults] == [[]] * 4


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("operation", WITH_GIT, ids=lambda operation: operation.name)
def test_killed_together_with_the_git_that_writes_for_it_it_is_whole_too(
    prepared: Prepared, operation: Operation, tmp_path: Path
) -> None:
    stage, points = prepared(operation)
    by_git = [point for point in points if point.git and point.syscall in ("rename", "write")]
    if not by_git:
        pytest.skip("No git writes for it.")
    point = by_git[-1]
    outcome = outcome_at(point, How.KILLED, stage, tmp_path, with_parent=True)
    assert (outcome.ending, outcome.damage) == ("killed", [])


@needs_strace
@pytest.mark.slow
def test_a_merge_whose_git_fails_after_the_branch_moved_is_done(prepared: Prepared, tmp_path: Path) -> None:
    stage, points = prepared(MERGE)
    by_git = [point for point in points if point.command == "update-ref" and point.syscall == "write"]
    # The last thing that it writes is the answer to AOP, into a pipe, which no disk makes fail.
    *_, log = (point for point in by_git if point.to_disk)
    outcome = outcome_at(log, How.DISK_FULL, stage, tmp_path)
    assert (outcome.ending, outcome.damage) == ("answered", [])
