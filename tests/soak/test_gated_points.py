"""A server that is killed in every state of a gated workflow: what it leaves is where it was, or one step on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gated.stages import STAGES
from tests.gated.transitions import TRANSITIONS
from tests.soak.faults import DURABLE, How, needs_strace, points_of, spread
from tests.soak.workflows import outcome_of, staged, steps_of

MOST_POINTS = max(1, int(os.environ.get("AOP_SOAK_POINTS", "100")) // 10)
"""Of each call; there are thirty of them, in three ways to break."""


def test_the_walk_begins_at_every_row_of_the_table() -> None:
    assert {row.requirement for row in TRANSITIONS} <= set(STAGES)


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.req("GATED-05", "GATED-64")
@pytest.mark.parametrize("requirement", STAGES)
def test_killed_before_a_lasting_step_a_workflow_is_where_it_was_or_one_step_on(
    requirement: str, tmp_path: Path
) -> None:
    stage = staged(requirement, tmp_path / "template")
    steps, points = steps_of(stage, tmp_path), points_of(stage, tmp_path)
    lasting = [point for point in points if point.syscall in DURABLE and not point.git]
    assert len(lasting) >= 2
    outcomes = [outcome_of(point, How.KILLED, stage, tmp_path, steps) for point in spread(lasting, 3)]
    assert [each.damage for each in outcomes] == [[]] * len(outcomes)
    assert {each.ending for each in outcomes} == {"killed"}


@needs_strace
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("requirement", STAGES)
@pytest.mark.parametrize(("program", "how"), [("aop", How.KILLED), ("both", How.KILLED), ("aop", How.DISK_FULL)])
def test_broken_at_any_writing_call_a_workflow_is_where_it_was_or_one_step_on(
    requirement: str, program: str, how: How, tmp_path: Path
) -> None:
    stage = staged(requirement, tmp_path / "template")
    steps, points = steps_of(stage, tmp_path), points_of(stage, tmp_path)
    chosen = [
        point for point in points if bool(point.git) == (program != "aop") and (point.to_disk or how is How.KILLED)
    ]
    outcomes = [
        outcome_of(point, how, stage, tmp_path, steps, with_parent=program == "both")
        for point in spread(chosen, MOST_POINTS)
    ]
    assert [outcome for outcome in outcomes if outcome.damage] == []
