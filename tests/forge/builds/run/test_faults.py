"""Faults of a running build: each ends with its name, keeps the work, and the same command goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.brains.conversation import Reply, Request
from aop.core.errors import BuildBusy, Fault
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.generation.stored_steps import ToolRefused
from tests.clocks import HandClock, clocked
from tests.forge.builds.cycles import cycle_of
from tests.forge.builds.run.builders import (
    BUILD,
    DONE_0,
    FETCHED,
    HONEST,
    WRITTEN_0,
    Said,
    build_with,
    notes_repository,
    said_to,
    scripted,
)
from tests.world import World, git

BRANCH = f"refs/heads/forge/build-{BUILD}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo")
    yield made
    made.close()


def goes_on(world: World, *replies: Said) -> list[Request]:
    """Go on with a build until its script ends; return what its model was asked."""
    model = scripted(*replies)
    with pytest.raises(Fault, match="script ends"):
        build_with(world, model)
    return model.asked


def test_a_build_at_its_cap_is_held_and_may_cost_as_much_again_when_it_is_resumed(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    max_usd: 0.0002\n")
    with pytest.raises(BuildHeld) as held:
        build_with(world, scripted(*HONEST))
    assert (held.value.cycle.hold, held.value.cycle.cost_usd) == ("cost_cap", 0.00028)
    world.ok("forge.build_resume", build_id=BUILD)
    on = scripted(*HONEST[2:])
    with pytest.raises(BuildHeld) as again:
        build_with(world, on)
    assert (again.value.cycle.cost_usd, len(on.asked)) == (0.00042, 1)
    world.close()


@pytest.mark.parametrize("damage", [("-d", BRANCH), (BRANCH, "main^{commit}")], ids=["deleted", "moved"])
def test_a_branch_that_is_damaged_ends_the_command_until_it_is_returned(world: World, damage: tuple[str, ...]) -> None:
    goes_on(world, FETCHED, WRITTEN_0)
    made = cycle_of(world, BUILD).head

    def damaged(request: Request) -> Reply:
        other = git(world.root, "commit-tree", "-m", "Elsewhere", "main^{tree}").strip()
        git(world.root, "update-ref", *(other if word == "main^{commit}" else word for word in damage))
        return Reply(model="m", text=DONE_0.text)

    with pytest.raises(ToolRefused) as refused:
        build_with(world, scripted(damaged))
    assert refused.value.error["code"] == "build_branch_moved"
    with pytest.raises(ToolRefused):
        build_with(world, scripted())
    git(world.root, "update-ref", BRANCH, made)
    (asked,) = goes_on(world)
    assert "Task 2 is recorded" in said_to(asked)
    assert cycle_of(world, BUILD).current.done == (1, 2)


def test_one_process_works_on_a_build_at_a_time(world: World) -> None:
    def meanwhile(request: Request) -> Reply:
        other = World(world.root)
        with pytest.raises(BuildBusy):
            build_with(other, scripted())
        other.close()
        return Reply(model="m", text="I think.")

    model = scripted(FETCHED, meanwhile)
    with pytest.raises(Fault, match="script ends"):
        build_with(world, model)
    assert len(model.asked) == 3


class Killed(BaseException):
    """The process is gone."""


def test_an_answer_that_comes_after_a_restart_reaches_the_model_once(world: World) -> None:
    clock: HandClock = clocked(world)

    def gone() -> None:
        raise Killed

    clock.meanwhile = gone
    with pytest.raises(Killed):
        build_with(world, scripted(Said(calls=(("forge_ask_clarification", {"question": "Which colour?"}),))))
    (question,) = world.ok("inbox.list")["questions"]
    given = {"project_id": "notes", "question_id": question["question_id"], "answer": "Deep blue."}
    world.ok("forge.clarify", **given)
    assert world.call("forge.clarify", **{**given, "answer": "Red."}).error is not None
    again = World(world.root)
    (asked,) = goes_on(again)
    assert said_to(asked).count("Deep blue.") == 1
    assert cycle_of(again, BUILD).questions == 1
    again.close()
