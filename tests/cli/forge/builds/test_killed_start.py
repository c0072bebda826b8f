"""The start of a build that is killed, or meets a full disk, at a call that writes: all of it, or nothing."""

from __future__ import annotations

import json
import shutil
from itertools import groupby
from pathlib import Path

import pytest

from tests.cli.forge.test_crashes import ContractStage
from tests.forge.broker.shelves import shelve
from tests.forge.builds.cycles import BRANCH, refs
from tests.soak.faults import AOP, How, Operation, Point, Stage, broken_at, needs_strace, points_of, spread
from tests.world import World, git, make_repository, run_aop

BEGIN = Operation(name="forge.build_begin", stage="contracts", event="build_began")
MOST_POINTS = 2
"""Of each kind of system call, of `aop` and of the git that it starts."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    root = make_repository(tmp_path_factory.mktemp("stage") / "repo")
    world = World(root)
    shelve(world, "shop")
    world.close()
    words = ("call", "--operation-id", "op-1", "forge.build_begin", json.dumps({"project_id": "shop"}))
    return ContractStage(root=root, operation=BEGIN, words=words)


@pytest.fixture(scope="module")
def points(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    def place(point: Point) -> tuple[bool, str]:
        return bool(point.git), point.syscall

    found = sorted(points_of(stage, tmp_path_factory.mktemp("points")), key=place)
    return [each for _, some in groupby(found, place) for each in spread(list(some), MOST_POINTS)]


def standing(root: Path) -> tuple[str, list[str], int]:
    """Return whether the build has begun, its branches, and how often the journal says so."""
    assert run_aop(root, "evidence", "verify").code == 0
    shown = run_aop(root, "forge", "status", "shop-b1", "--json").json
    world = World(root)
    with world.app.record.read() as view:
        began = len(list(view.journal(kinds=("build_began",))))
    world.close()
    branches = [name.removeprefix("refs/heads/") for name in refs(root)]
    return (shown["data"]["status"] if shown["ok"] else shown["error"]["code"]), branches, began


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [How.KILLED, How.DISK_FULL], ids=["killed", "disk full"])
def test_a_start_that_is_broken_is_whole_and_done_once_when_it_is_given_again(
    stage: Stage, points: list[Point], how: How, tmp_path: Path
) -> None:
    seen = set()
    chosen = [point for point in points if point.to_disk or how is How.KILLED]
    for number, point in enumerate(chosen):
        own = stage.copied(tmp_path / str(number))
        main = refs(own.root)["refs/heads/main"]
        broken_at(point, how, own, program=AOP, with_parent=how is How.KILLED)
        after = standing(own.root)
        assert after in (("unknown_build", ["main"], 0), ("active", [BRANCH, "main"], 1)), point
        seen.add(after[0])
        again = run_aop(own.root, *own.words)
        assert again.code == 0, (point, again)
        assert standing(own.root) == ("active", [BRANCH, "main"], 1), point
        assert refs(own.root) == {"refs/heads/main": main, f"refs/heads/{BRANCH}": main}, point
        worktree = own.root / ".worktrees/shop-b1"
        assert (git(worktree, "status", "--porcelain"), (worktree / "src/a.txt").exists()) == ("", True), point
        shutil.rmtree(own.root)
    assert seen == {"unknown_build", "active"}
