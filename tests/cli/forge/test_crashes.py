"""A change of contracts that is killed, or meets a full disk, at a system call that writes: all of it, or nothing."""

from __future__ import annotations

import json
import shutil
from itertools import groupby
from pathlib import Path

import pytest

from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from tests.forge.projects import NINE, stored
from tests.soak.faults import AOP, How, Operation, Point, Stage, broken_at, needs_strace, points_of, spread
from tests.world import World, make_repository, run_aop

EDIT = Operation(name="forge.contract_edit", stage="contracts", event="contracts_stored")
EDITED = NINE[ContractType.UI] + "\nButtons are large.\n"
MOST_POINTS = 4
"""Of each kind of system call."""


class ContractStage(Stage, frozen=True, kw_only=True):
    """A repository with a project, which has no worktrees."""

    def copied(self, to: Path) -> Stage:
        shutil.copytree(self.root, to, symlinks=True)
        return ContractStage(root=to, operation=self.operation, words=self.words)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    root = make_repository(tmp_path_factory.mktemp("stage") / "repo")
    world = World(root)
    world.ok("forge.project_new", name="Shop")
    stored(world, "shop")
    world.close()
    arguments = {"project_id": "shop", "contract_type": "ui", "expected_version": 1, "content": EDITED}
    words = ("call", "--operation-id", "op-1", "forge.contract_edit", json.dumps(arguments))
    return ContractStage(root=root, operation=EDIT, words=words)


@pytest.fixture(scope="module")
def points(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    found = [point for point in points_of(stage, tmp_path_factory.mktemp("points")) if not point.git]
    found.sort(key=lambda point: point.syscall)
    return [each for _, some in groupby(found, lambda point: point.syscall) for each in spread(list(some), MOST_POINTS)]


def state(root: Path) -> tuple[int, int, int]:
    """Return the newest version, the newest batch and the number of stored batches; all of it is proven."""
    assert run_aop(root, "evidence", "verify").code == 0
    data = run_aop(root, "forge", "show", "shop", "--json").json["data"]
    assert [each["contract_type"] for each in data["contracts"]] == list(CONTRACT_TYPES)
    version = {each["contract_type"]: each["version"] for each in data["contracts"]}["ui"]
    world = World(root)
    with world.app.record.read() as view:
        batches = len(list(view.journal(kinds=("contracts_stored",))))
    world.close()
    return version, data["batch"], batches


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [How.KILLED, How.DISK_FULL], ids=["killed", "disk full"])
def test_an_edit_that_is_broken_is_whole_and_done_once_when_it_is_given_again(
    stage: Stage, points: list[Point], how: How, tmp_path: Path
) -> None:
    assert len(points) > MOST_POINTS
    seen = set()
    for number, point in enumerate(points):
        own = stage.copied(tmp_path / str(number))
        broken_at(point, how, own, program=AOP)
        after = state(own.root)
        assert after in ((1, 1, 1), (2, 2, 2)), point
        seen.add(after)
        again = run_aop(own.root, *own.words)
        assert again.code == 0, (point, again)
        assert state(own.root) == (2, 2, 2), point
        shutil.rmtree(own.root)
    assert (1, 1, 1) in seen


NEW = Operation(name="forge.project_new", stage="contracts", event="project_begun")
PIN = Operation(name="forge.pin", stage="contracts", event="contracts_pinned")
GIVEN = {NEW.name: {"name": "Blog"}, PIN.name: {"project_id": "shop"}}


def begun(root: Path) -> tuple[list[str], list[str], int, int]:
    """Return the projects and builds of the record, and how often its journal says so; all of it is proven."""
    assert run_aop(root, "evidence", "verify").code == 0
    world = World(root)
    with world.app.record.read() as view:
        found = (
            [each.project_id for each in view.all(ForgeProject)],
            [each.build_id for each in view.all(ForgeBuild)],
            len(list(view.journal(kinds=(NEW.event,)))),
            len(list(view.journal(kinds=(PIN.event,)))),
        )
    world.close()
    return found


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [How.KILLED, How.DISK_FULL], ids=["killed", "disk full"])
@pytest.mark.parametrize("operation", [NEW, PIN], ids=["new", "pin"])
def test_a_project_or_a_pin_that_is_broken_is_whole_and_made_once(
    stage: Stage, operation: Operation, how: How, tmp_path: Path
) -> None:
    words = ("call", "--operation-id", "op-1", operation.name, json.dumps(GIVEN[operation.name]))
    own_stage = ContractStage(root=stage.root, operation=operation, words=words)
    found = [point for point in points_of(own_stage, tmp_path) if not point.git]
    found.sort(key=lambda point: point.syscall)
    points = [each for _, some in groupby(found, lambda point: point.syscall) for each in spread(list(some), 2)]
    nothing: tuple[list[str], list[str], int, int] = (["shop"], [], 1, 0)
    made = (["blog", "shop"], [], 2, 0) if operation is NEW else (["shop"], ["shop-b1"], 1, 1)
    seen = []
    for number, point in enumerate(points):
        own = own_stage.copied(tmp_path / str(number))
        broken_at(point, how, own, program=AOP)
        after = begun(own.root)
        assert after in (nothing, made), point
        seen.append(after)
        again = run_aop(own.root, *own.words)
        assert again.code == 0, (point, again)
        assert begun(own.root) == made, point
        shutil.rmtree(own.root)
    assert nothing in seen
