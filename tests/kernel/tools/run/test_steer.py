"""The tools by which people steer a run."""

from __future__ import annotations

import pytest

from tests.world import World, plan_for


def fail(world: World, feature: str = "one") -> None:
    version = world.ok("feature.state_get", feature_id=feature)["version"]
    patch = {"status": "failed", "status_reason": "It used up its turns."}
    world.ok("feature.state_patch", feature_id=feature, expected_version=version, patch=patch)


@pytest.mark.req("AOP-253")
def test_a_failed_feature_with_a_plan_goes_on_building_and_holds_what_its_plan_held(world: World) -> None:
    world.plan("one")
    world.patch("one")
    fail(world)
    retried = world.ok("feature.retry", feature_id="one")
    assert (retried["was"], retried["status"]) == ("failed", "building")
    world.init("two")
    refused = world.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))
    assert refused["details"]["conflicting_feature_ids"] == ["one"]
    assert [world.ok("gates.run", feature_id="one", mode=mode)["verdict"] for mode in ("fast", "full")] == ["pass"] * 2


def test_a_failed_feature_whose_place_another_has_taken_stays_failed(world: World) -> None:
    world.plan("one")
    fail(world)
    world.plan("two")
    refused = world.refusal("feature.retry", feature_id="one")
    assert (refused["code"], refused["details"]["conflicting_feature_ids"]) == ("collision_detected", ["two"])


def test_a_failed_feature_without_a_plan_is_planned(world: World) -> None:
    world.init("one")
    fail(world)
    assert world.ok("feature.retry", feature_id="one")["status"] == "planning"


def test_a_feature_that_was_ready_when_it_was_blocked_is_proven_again(world: World) -> None:
    world.ready("one")
    version = world.ok("feature.state_get", feature_id="one")["version"]
    patch = {"status": "blocked", "status_reason": "Not now."}
    world.ok("feature.state_patch", feature_id="one", expected_version=version, patch=patch)
    assert world.ok("feature.retry", feature_id="one")["status"] == "qa"


def test_only_what_failed_or_is_blocked_begins_again(world: World) -> None:
    world.plan("one")
    assert world.refusal("feature.retry", feature_id="one")["code"] == "invalid_status_transition"


def test_everything_and_one_feature_rest_each_by_itself(world: World) -> None:
    world.init("one")
    assert [world.ok("run.pause")["changed"], world.ok("run.pause")["changed"]] == [True, False]
    world.ok("run.pause", feature_id="one")
    assert world.ok("run.resume", feature_id="one") == {"resumed": ["one"], "still_paused": ["*"]}
    assert world.ok("run.resume") == {"resumed": ["*"], "still_paused": []}
    assert world.ok("run.resume") == {"resumed": [], "still_paused": []}
    assert world.refusal("run.pause", feature_id="nobody")["code"] == "unknown_feature"
