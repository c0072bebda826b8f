"""Group S: what the disk does to the state, and what somebody else does to it. Leases are elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.faults import PATCHED, How, Point, Stage, needs_strace, points_of, staged
from tests.soak.wholeness import outcome_at
from tests.world import World


@pytest.fixture(scope="module")
def patching(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, list[Point]]:
    """A repository that a patch can be applied to, and where that writes."""
    folder = tmp_path_factory.mktemp("patching")
    stage = staged(PATCHED, folder / "template")
    return stage, points_of(stage, folder)


DISKS = [
    pytest.param(How.DISK_FULL, ("pwrite64", "write"), "failed", marks=pytest.mark.hostile("S06"), id="S06 writing"),
    pytest.param(How.DISK_FULL, ("openat", "mkdir"), "failed", marks=pytest.mark.hostile("S06"), id="S06 making"),
    pytest.param(How.DISK_FULL, ("fsync", "renameat"), "failed", marks=pytest.mark.hostile("S06"), id="S06 finishing"),
    pytest.param(How.DISK_BROKEN, ("fsync",), "failed", marks=pytest.mark.hostile("S07"), id="S07"),
    pytest.param(How.INTERRUPTED, ("write", "pwrite64"), "answered", marks=pytest.mark.hostile("S09"), id="S09"),
]


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize(("how", "syscalls", "ending"), DISKS)
def test_a_disk_that_fails_fails_the_operation_and_leaves_the_old_state_whole(
    patching: tuple[Stage, list[Point]], how: How, syscalls: tuple[str, ...], ending: str, tmp_path: Path
) -> None:
    stage, points = patching
    for syscall in syscalls:
        own = [point for point in points if point.syscall == syscall and not point.git]
        # The last ones are part of closing the record, which is done again by whoever opens it: they fail nothing.
        point = own[len(own) // 2]
        outcome = outcome_at(point, how, stage, tmp_path)
        assert (outcome.ending, outcome.damage) == (ending, []), point


@pytest.mark.hostile("S38")
def test_an_index_that_was_blown_up_is_set_aside_unread(world: World) -> None:
    world.init("one")
    index = world.root / "agentic/features/index.json"
    os.truncate(index, 200 * 1024 * 1024)
    answer = world.call("feature.init", feature_id="two")
    (place,) = answer.evidence["set_aside"]
    assert ((world.root / place).stat().st_size, index.stat().st_size < 1000) == (200 * 1024 * 1024, True)
