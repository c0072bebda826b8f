"""gates.status: how far a run is, by the operation id of its call, from whichever process one looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.tools.worlds import configured, gates_of, plain, step
from tests.racing import running, until
from tests.world import World

CALL = """
from aop.wiring.build import Settings, build
app = build(Path(sys.argv[1]), Settings.from_env(os.environ))
ready()
app.gateway.call(app.person, "gates.run", {"feature_id": "one", "mode": "fast"}, operation_id="run-1")
"""
LINE = "one: fast gates, step 1 of 1: check"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[World]:
    """A feature whose fast gates wait for a file `go` in its worktree."""
    world = configured(
        tmp_path / "repo", gates=gates_of(fast=step("touch started; until [ -e go ]; do sleep 0.02; done"))
    )
    world.plan()
    yield world
    world.close()


def status(world: World, operation_id: str = "run-1", feature: str = "one") -> Any:
    return plain(world.ok("gates.status", feature_id=feature, operation_id=operation_id))


@pytest.mark.req("AOP-326")
def test_a_run_in_another_process_is_seen_running_then_finished(waiting: World) -> None:
    with running(CALL, waiting.root) as child:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        until((waiting.root / ".worktrees/one/started").exists)
        assert status(waiting) == {
            "feature_id": "one",
            "operation_id": "run-1",
            "mode": "fast",
            "state": "running",
            "progress": [LINE],
            "answer": None,
        }
        (waiting.root / ".worktrees/one/go").touch()
        child.wait(timeout=300)
    finished = status(waiting)
    again = waiting.call("gates.run", operation="run-1", feature_id="one", mode="fast")
    assert (finished["state"], finished["progress"], finished["answer"]) == ("finished", [LINE], plain(again.as_json()))


def test_a_run_whose_process_was_killed_is_interrupted_and_can_be_run_again(waiting: World) -> None:
    waiting.ok("report.dashboard")
    with running(CALL, waiting.root) as child:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        until((waiting.root / ".worktrees/one/started").exists)
        child.kill()
    assert (status(waiting)["state"], status(waiting)["answer"]) == ("interrupted", None)


def test_gates_that_fail_are_finished_with_their_refusal(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", gates=gates_of(fast=step("exit 3")))
    world.plan()
    failed = world.call("gates.run", operation="run-1", feature_id="one", mode="fast")
    seen = status(world)
    assert (seen["state"], seen["answer"]) == ("finished", plain(failed.as_json()))
    assert seen["answer"]["error"]["code"] == "gate_failed"
    world.close()


@pytest.mark.parametrize("operation_id", ["never", "made-it"])
def test_what_is_no_gate_run_of_the_feature_is_not_known(world: World, operation_id: str) -> None:
    world.call("feature.init", operation="made-it", feature_id="one")
    error = world.refusal("gates.status", feature_id="one", operation_id=operation_id)
    assert (error["code"], error["details"]["operation_id"]) == ("unknown_operation", operation_id)


def test_a_run_of_another_feature_is_not_known(world: World) -> None:
    world.plan("one")
    world.init("two")
    world.call("gates.run", operation="run-1", feature_id="one", mode="fast")
    assert status(world)["state"] == "finished"
    assert world.refusal("gates.status", feature_id="two", operation_id="run-1")["code"] == "unknown_operation"


def test_a_run_that_was_refused_is_not_kept(world: World) -> None:
    world.init("one")
    world.refusal("gates.run", operation="run-1", feature_id="one", mode="fast", profile="other")
    assert world.refusal("gates.status", feature_id="one", operation_id="run-1")["code"] == "unknown_operation"
