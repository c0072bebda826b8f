"""What every engine promises, shown on the one in memory and on the durable one, which is killed with SIGKILL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.core.run import RunBroke, RunState
from tests.adapters.storage.engine.scenes import DurableScene, MemoryScene, Scene, states
from tests.racing import until

SECONDS = 300.0


@pytest.fixture(params=[MemoryScene, DurableScene], ids=["memory", "durable"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    made: Scene = request.param(tmp_path)
    made.start()
    yield made
    made.kill()


def noted(scene: Scene, line: str) -> None:
    until(lambda: line in scene.folder.notes(), seconds=SECONDS)


def test_a_run_does_its_steps_in_order_and_keeps_its_result(scene: Scene) -> None:
    scene.folder.allow("a")
    scene.call("submit", "three_steps", {"name": "a"}, key="a", priority=5)
    assert scene.call("result", "a") == {"did": ["a first", 2, "a third"]}
    assert scene.folder.notes() == ["a first", "a second begins", "a second ends", "a third"]
    assert states(scene) == {"a": RunState.DONE}


@pytest.mark.req("AOP-231", "AOP-259")
def test_after_a_kill_a_finished_step_is_not_done_again_and_an_interrupted_one_is(scene: Scene) -> None:
    scene.call("submit", "three_steps", {"name": "a"}, key="a", priority=5)
    noted(scene, "a second begins")
    scene.kill()
    scene.folder.allow("a")
    scene.start()
    assert scene.call("result", "a") == {"did": ["a first", 2, "a third"]}
    assert scene.folder.notes() == ["a first", "a second begins", "a second begins", "a second ends", "a third"]


def test_a_run_that_ended_is_not_done_again_after_a_kill(scene: Scene) -> None:
    scene.folder.allow("a")
    scene.call("submit", "three_steps", {"name": "a"}, key="a", priority=5)
    scene.call("result", "a")
    before = scene.folder.notes()
    scene.kill()
    scene.start()
    scene.call("submit", "three_steps", {"name": "a"}, key="a", priority=5)
    assert scene.call("result", "a") == {"did": ["a first", 2, "a third"]}
    assert scene.folder.notes() == before


def test_the_same_key_twice_is_one_run(scene: Scene) -> None:
    scene.folder.allow("all")
    scene.call("submit", "family", {"children": [["x", 1], ["y", 2]]}, key="f", priority=5)
    scene.call("submit", "family", {"children": [["z", 1]]}, key="f", priority=5)
    assert scene.call("result", "f") == [True, ["x", "y"]]
    assert sorted(scene.folder.notes()) == ["+x", "+y", "-x", "-y"]


@pytest.mark.req("AOP-309")
def test_no_more_than_the_limit_of_a_kind_is_active_and_lower_numbers_go_first(scene: Scene) -> None:
    scene.call("submit", "limited", {"name": "a"}, key="a", priority=1)
    scene.call("submit", "limited", {"name": "b"}, key="b", priority=1)
    noted(scene, "+a")
    noted(scene, "+b")
    scene.call("submit", "limited", {"name": "late"}, key="late", priority=9)
    scene.call("submit", "limited", {"name": "soon"}, key="soon", priority=2)
    assert sorted(scene.folder.notes()) == ["+a", "+b"]
    scene.folder.allow("a")
    noted(scene, "+soon")
    assert "+late" not in scene.folder.notes()
    for name in ("b", "soon", "late"):
        scene.folder.allow(name)
    assert [scene.call("result", name) for name in ("b", "soon", "late")] == ["b", "soon", "late"]
    assert states(scene) == dict.fromkeys(("a", "b", "late", "soon"), RunState.DONE)


def test_a_run_that_waits_for_an_answer_or_a_child_holds_no_place(scene: Scene) -> None:
    scene.call("submit", "asking", {"name": "one"}, key="q1", priority=1)
    scene.call("submit", "asking", {"name": "two"}, key="q2", priority=1)
    scene.call("submit", "asking", {"name": "three"}, key="q3", priority=1)
    scene.call("submit", "family", {"children": [["x", 1], ["y", 1], ["z", 1]]}, key="f", priority=5)
    scene.folder.allow("all")
    assert scene.call("result", "f") == [True, ["x", "y", "z"]]
    assert all(states(scene)[f"q{number}"] is RunState.ACTIVE for number in (1, 2, 3))


def test_an_answer_arrives_whenever_it_is_given_and_the_first_one_counts(scene: Scene) -> None:
    scene.call("submit", "asking", {"name": "one"}, key="q", priority=1)
    noted(scene, "one asks")
    scene.kill()
    scene.start()
    scene.call("answer", "q", "colour", "blue")
    scene.call("answer", "q", "colour", "red")
    assert scene.call("result", "q") == "blue"
    # Killed after it asked and before that was recorded, it asks again.
    assert list(dict.fromkeys(scene.folder.notes())) == ["one asks", "one heard blue"]


def test_an_answer_that_came_before_a_kill_is_not_lost(scene: Scene) -> None:
    scene.call("submit", "three_steps", {"name": "a"}, key="a", priority=5)
    scene.call("submit", "asking", {"name": "one"}, key="q", priority=1)
    scene.call("answer", "q", "colour", {"deep": ["blue", None]})
    scene.kill()
    scene.start()
    assert scene.call("result", "q") == {"deep": ["blue", None]}


def test_a_run_that_is_cancelled_ends_with_what_it_spawned(scene: Scene) -> None:
    scene.call("submit", "family", {"children": [["x", 1], ["y", 1], ["z", 1]]}, key="f", priority=5)
    noted(scene, "+x")
    noted(scene, "+y")
    until(lambda: len(states(scene)) == 4, seconds=SECONDS)
    scene.call("cancel", "f")
    assert states(scene) == dict.fromkeys(("f", "f/x", "f/y", "f/z"), RunState.CANCELLED)
    scene.call("submit", "limited", {"name": "next"}, key="next", priority=1)
    scene.folder.allow("next")
    assert scene.call("result", "next") == "next"
    assert "-x" not in scene.folder.notes()


def test_what_a_step_raises_ends_its_run_and_is_told_to_whoever_waits(scene: Scene) -> None:
    scene.call("submit", "parent_of_breaking", None, key="p", priority=1)
    with pytest.raises(RunBroke, match="it cannot be done"):
        scene.call("result", "p")
    assert states(scene) == {"p": RunState.BROKEN, "p/child": RunState.BROKEN}
    assert scene.folder.notes() == ["fails"]


def test_a_run_is_forgotten_with_what_it_spawned(scene: Scene) -> None:
    scene.folder.allow("all")
    scene.call("submit", "family", {"children": [["x", 1]]}, key="f", priority=5)
    scene.call("submit", "family", {"children": [["x", 1]]}, key="g", priority=5)
    scene.call("result", "f")
    scene.call("result", "g")
    scene.call("forget", "f")
    assert sorted(states(scene)) == ["g", "g/x"]
    assert sorted(states(scene, "g/")) == ["g/x"]


def test_a_process_remembers_nothing_of_runs_that_have_ended(tmp_path: Path) -> None:
    scene = DurableScene(tmp_path)
    scene.start()
    scene.folder.allow("all")
    before = scene.call("remembered")
    scene.call("submit", "family", {"children": [["x", 1], ["y", 1]]}, key="f", priority=5)
    scene.call("result", "f")
    after = scene.call("remembered")
    scene.kill()
    assert after == before
