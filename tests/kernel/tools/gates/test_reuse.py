"""Gates that passed on a tree are not run on it again, unless somebody asks or something that counts is another."""

from __future__ import annotations

import pytest

from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import gates_of, step
from tests.world import World, git

COUNTED = "echo ran >> /dev/null; test -e src/a.txt"


def logs(world: World) -> int:
    return len(list((world.root / "agentic/features/one/logs").glob("*.log")))


@pytest.fixture
def planned(make_world: MakeWorld) -> World:
    world = make_world(gates=gates_of(fast=step(COUNTED), full=step(COUNTED), merge=step(COUNTED)))
    world.plan()
    return world


def test_the_same_gates_on_the_same_tree_run_once(planned: World) -> None:
    first = planned.ok("gates.run", feature_id="one", mode="fast")
    second = planned.ok("gates.run", feature_id="one", mode="fast")

    assert (first["reused"], second["reused"]) == (False, True)
    assert second["gate_run_id"] == first["gate_run_id"]
    assert logs(planned) == 1


def test_they_run_again_when_asked(planned: World) -> None:
    first = planned.ok("gates.run", feature_id="one", mode="fast")
    forced = planned.ok("gates.run", feature_id="one", mode="fast", force=True)

    assert forced["reused"] is False
    assert forced["gate_run_id"] != first["gate_run_id"]
    assert logs(planned) == 2


def test_another_tree_is_proven_anew(planned: World) -> None:
    planned.ok("gates.run", feature_id="one", mode="fast")
    planned.patch()
    again = planned.ok("gates.run", feature_id="one", mode="fast")

    assert again["reused"] is False
    assert logs(planned) == 2


def test_other_steps_are_run(planned: World) -> None:
    planned.ok("gates.run", feature_id="one", mode="fast")
    gates = planned.root / "agentic/orchestrator/gates.yaml"
    gates.write_text(gates.read_text().replace("echo ran", "echo other"))
    git(planned.root, "commit", "-qam", "Other gates")

    assert planned.ok("gates.run", feature_id="one", mode="fast")["reused"] is False


def test_gates_that_failed_are_run_again(make_world: MakeWorld) -> None:
    world = make_world(gates=gates_of(fast=step("exit 3"), full=step("true"), merge=step("true")))
    world.plan()
    for _ in range(2):
        assert world.call("gates.run", feature_id="one", mode="fast").error is not None

    assert logs(world) == 2


@pytest.mark.parametrize("linked", [True, False])
def test_another_program_in_the_place_of_a_relative_one_is_run_again(make_world: MakeWorld, *, linked: bool) -> None:
    program = [{"name": "check", "cmd": ["../env/bin/tool"], "cwd": "src"}]
    install = {"cmd": ["sh", "-c", "mkdir -p env/bin && ln -s /bin/true env/bin/tool"]}
    world = make_world(
        gates=gates_of(fast=program),
        policy={"worktree": {"link": ["env"]} if linked else {"setup": [install]}},
        files={".gitignore": "env/\nenv\n"},
    )
    world.plan()
    place = (world.root if linked else world.root / ".worktrees/one") / "env/bin"
    if linked:
        place.mkdir(parents=True)
        (place / "tool").symlink_to("/bin/true")
    reused = [world.ok("gates.run", feature_id="one", mode="fast")["reused"] for _ in range(2)]
    (place / "tool").unlink()
    (place / "tool").symlink_to("/usr/bin/env")
    reused += [world.ok("gates.run", feature_id="one", mode="fast")["reused"] for _ in range(2)]
    assert reused == [False, True, False, True]


def test_a_program_that_a_set_up_puts_into_each_checkout_leaves_the_verdict_on_the_base_known(
    make_world: MakeWorld,
) -> None:
    world = make_world(
        gates=gates_of(fast=[{"name": "check", "cmd": ["env/tool"]}], full=step("true"), merge=step("true")),
        policy={"worktree": {"setup": [{"cmd": ["sh", "-c", "mkdir env && cp /bin/true env/tool"]}]}},
        files={".gitignore": "env/\n"},
    )
    assert [world.ok("gates.check_base")["known"] for _ in range(2)] == [False, True]


BOTH = [
    {"name": name, "cmd": ["sh", "-c", f"touch {own}; i=0; until test -e {other}; do i=$((i+1)); sleep 0.05; done"]}
    for name, own, other in (("ping", "ping", "pong"), ("pong", "pong", "ping"))
]


@pytest.mark.req("AOP-191")
def test_steps_of_a_parallel_profile_run_at_the_same_time(make_world: MakeWorld) -> None:
    # Each step waits for the file that the other one makes: one after the other they would never end.
    world = make_world(gates=gates_of(fast=BOTH, parallel=True), files={".gitignore": "ping\npong\n"})
    world.plan()
    ran = world.ok("gates.run", feature_id="one", mode="fast")

    assert [(step["name"], step["outcome"]) for step in ran["steps"]] == [("ping", "passed"), ("pong", "passed")]


@pytest.mark.req("AOP-191")
def test_all_steps_of_a_parallel_profile_are_told_and_the_one_that_failed_is_pointed_to(make_world: MakeWorld) -> None:
    steps = [{"name": "bad", "cmd": ["sh", "-c", "exit 3"]}, {"name": "good", "cmd": ["sh", "-c", "exit 0"]}]
    world = make_world(gates=gates_of(fast=steps, parallel=True))
    world.plan()
    answer = world.call("gates.run", feature_id="one", mode="fast")

    assert answer.error is not None
    outcomes = [(step["name"], step["outcome"]) for step in answer.error["details"]["steps"]]
    assert outcomes == [("bad", "failed"), ("good", "passed")]
    assert (answer.evidence["exit_code"], answer.evidence["log_path"].endswith("-bad.log")) == (3, True)
