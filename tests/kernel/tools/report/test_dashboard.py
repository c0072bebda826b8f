"""report.dashboard: every feature that the caller may see, as the record has it."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.features import Collisions, HeldLocks, Status
from tests.kernel.tools.worlds import force, plain
from tests.world import World, files

NONE_RUN = {"plan": "na", "fast": "na", "full": "na", "merge": "na"}
FIGURES = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
ASKS_NOTHING: Any = {
    "question": "",
    "asks": [],
    "out_of_time": [],
    "conflicts": [],
    "paused": False,
    "at_work": None,
    "gates_at_work": None,
    "waits": "",
    "next_command": "",
}
NAMES = ("one", "three", "two")
NO_TURNS = {
    "turns": 0,
    "self_reported_turns": 0,
    "estimated_turns": 0,
    **{name: {"known": None, "unknown_turns": 0} for name in FIGURES},
}


def counted(**statuses: int) -> dict[str, int]:
    return {**dict.fromkeys((status.value for status in Status), 0), **statuses}


@pytest.mark.req("AOP-202")
def test_the_dashboard_shows_status_gates_locks_and_what_blocks(world: World) -> None:
    world.plan()
    world.ok("gates.run", feature_id="one", mode="fast")
    world.init("two")
    theirs = {"feature_id": "one", "kind": "file", "identifier": "src/a.txt"}
    force(
        world,
        "two",
        status=Status.BLOCKED,
        status_reason="It waits for `one`.",
        locks=HeldLocks(held=("openapi",)),
        collisions=Collisions(files=(theirs,), contracts=(theirs,)),
    )
    world.init("three")

    dashboard = plain(world.ok("report.dashboard"))
    changed = [row.pop("changed_at") for row in dashboard["features"]]
    assert changed == [world.ok("feature.state_get", feature_id=name)["front_matter"]["last_updated"] for name in NAMES]
    assert dashboard == {
        "features": [
            {
                "feature_id": "one",
                "status": "qa",
                "status_reason": "",
                "gates": {**NONE_RUN, "plan": "pass", "fast": "pass"},
                "locks": [],
                "blocked_by": [],
                "spent": NO_TURNS,
                **ASKS_NOTHING,
            },
            {
                "feature_id": "three",
                "status": "planning",
                "status_reason": "",
                "gates": NONE_RUN,
                "locks": [],
                "blocked_by": [],
                "spent": NO_TURNS,
                **ASKS_NOTHING,
            },
            {
                "feature_id": "two",
                "status": "blocked",
                "status_reason": "It waits for `one`.",
                "gates": NONE_RUN,
                "locks": ["openapi"],
                "blocked_by": ["one"],
                "spent": NO_TURNS,
                **ASKS_NOTHING,
                "waits": "It waits for `one`.",
            },
        ],
        "counts": counted(qa=1, planning=1, blocked=1),
        "spent": NO_TURNS,
        "runs": {},
        "newest_run": None,
        "checkout": "",
    }


def test_a_repository_without_features_has_an_empty_dashboard(world: World) -> None:
    assert plain(world.ok("report.dashboard")) == {
        "features": [],
        "counts": counted(),
        "spent": NO_TURNS,
        "runs": {},
        "newest_run": None,
        "checkout": "",
    }


def test_a_turn_in_progress_is_named_with_its_agent(world: World) -> None:
    world.init()
    turn = {"worker": "planner", "run": "run-1", "provider": "claude", "model": "opus"}
    world.ok("usage.begin", role=Role.SYSTEM, feature_id="one", **turn)
    (row,) = world.ok("report.dashboard")["features"]
    since = row["at_work"].pop("since")
    assert row["at_work"] == {"role": "planner", "provider": "claude", "model": "opus"}
    assert since >= row["changed_at"]


def test_a_turn_names_the_worker_of_another_machine_while_it_goes_on_and_in_the_journal(world: World) -> None:
    world.init()
    turn = {"worker": "planner", "run": "run-1", "provider": "claude"}
    begun = world.ok("usage.begin", role=Role.SYSTEM, feature_id="one", **turn)["turn"]
    for worker in ("build-7", "", "build-8"):
        world.ok("usage.assign", role=Role.SYSTEM, feature_id="one", turn=begun, on_worker=worker)
        (row,) = world.ok("report.dashboard")["features"]
        assert row["at_work"].get("on_worker", "") == worker
    # An attempt that was lost names its own worker, and leaves the turn open.
    world.ok("usage.record", role=Role.SYSTEM, feature_id="one", **turn, answered=False, on_worker="build-7")
    world.ok("usage.record", role=Role.SYSTEM, feature_id="one", **turn, turn=begun)
    world.ok("usage.record", role=Role.SYSTEM, feature_id="one", **turn)
    with world.app.record.read() as view:
        taken = [entry.event.payload for entry in view.journal(kinds=("turn_taken",))]
    assert [turn.get("on_worker") for turn in taken] == ["build-7", "build-8", None]
    after = world.ok("usage.assign", role=Role.SYSTEM, feature_id="one", turn=begun, on_worker="build-9")
    assert after["on_worker"] == ""


def test_a_worker_sees_its_own_feature_only(world: World) -> None:
    for name in ("one", "two"):
        world.init(name)
    answer = world.call_as_worker("report.dashboard", Role.BUILDER, "two")
    assert [row["feature_id"] for row in answer.data["features"]] == ["two"]
    assert answer.data["counts"] == counted(planning=1)


def test_a_merged_feature_stays_on_the_dashboard(world: World) -> None:
    world.ready(files=files(modify=("src/a.txt",)))
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())
    dashboard = world.ok("report.dashboard")
    assert (dashboard["features"][0]["status"], dashboard["counts"]["merged"]) == ("merged", 1)


def test_the_dashboard_takes_no_arguments(world: World) -> None:
    assert world.refusal("report.dashboard", feature_id="one")["code"] == "invalid_arguments"
