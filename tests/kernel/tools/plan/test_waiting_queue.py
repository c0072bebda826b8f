"""`collision_policy: block`: plans that collide wait in a queue, and are taken when they collide no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.features import HeldLocks
from aop.kernel.record.documents.plans import BlockedQueue
from tests.clocks import clocked
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import POLICY, events, patch_of, plain, state_of, yaml
from tests.world import World, files, git, plan_for

NO_CONTRACTS = {"openapi": "none", "events": "none", "db": "none"}
OPENAPI = {**NO_CONTRACTS, "openapi": "modify"}


@pytest.fixture
def blocking(make_world: MakeWorld) -> World:
    """Three features under `block`; `one` has a plan for `src/a.txt`."""
    world = make_world(policy={"collision_policy": "block"})
    for feature in ("one", "two", "three"):
        world.init(feature)
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one"))
    return world


def submit(world: World, feature: str = "two", **changes: Any) -> Any:
    """Submit a first plan; return the error, or None if it was accepted."""
    answer = world.call("plan.submit", feature_id=feature, plan_json=plan_for(feature, **changes))
    return plain(answer.error)


def blocked(world: World, feature: str = "two", **changes: Any) -> Any:
    """Submit a plan that must wait; return the details."""
    error = submit(world, feature, **changes)
    assert error is not None
    assert error["code"] == "blocked_by_collision_policy"
    return error["details"]


def revise(world: World, feature: str, version: int, **changes: Any) -> Any:
    plan = plan_for(feature, plan_version=version, revision_of=version - 1, **changes)
    return world.call("plan.update", feature_id=feature, expected_plan_version=version - 1, plan_json=plan)


def index_of(world: World) -> Any:
    return json.loads((world.root / "agentic/features/index.json").read_text())


def waiting(world: World) -> list[str]:
    """Return whose plans wait, in order; the record and its file agree."""
    with world.app.record.read() as view:
        queue = view.get(BlockedQueue, BlockedQueue.key)
    names = [str(each.feature_id) for each in queue.plans] if queue else []
    assert [each["feature_id"] for each in index_of(world)["blocked_queue"]] == names
    return names


def status(world: World, feature: str) -> tuple[str, str]:
    state = state_of(world, feature)
    return state.status.value, state.status_reason


def accepted(world: World, feature: str) -> Any:
    """Return the accepted plan, or None."""
    answer = world.call("plan.get", feature_id=feature)
    return plain(answer.data["plan"]) if answer.ok else None


# --- waiting -------------------------------------------------------------------------------------


@pytest.mark.req("AOP-098", "AOP-209", "AOP-212", "AOP-213")
def test_a_plan_that_collides_waits_and_the_answer_says_for_whom(blocking: World) -> None:
    clocked(blocking)
    error = submit(blocking)

    assert error["code"] == "blocked_by_collision_policy"
    assert error["message"] == ("The plan of `two` collides with the accepted plan of `one`. Its plan waits for `one`.")
    details = error["details"]
    entry = {
        "feature_id": "two",
        "plan_version": 1,
        "detected_at": "2026-01-02T12:00:00.000Z",
        "collision_fingerprint": details["collision_fingerprint"],
        "required_resources": [],
    }
    assert details["blocked_queue_entry"] == entry
    assert (details["retryable"], details["queue_position"]) == (True, 1)
    assert (details["waits_for"], details["conflicting_feature_ids"]) == (["one"], ["one"])
    assert [(each["kind"], each["identifier"]) for each in details["collisions"]] == [("file", "src/a.txt")]
    assert details["suggested_next_actions"]
    index = index_of(blocking)
    assert (index["blocked"], index["blocked_queue"]) == (["two"], [entry])
    assert status(blocking, "two") == ("blocked", "Plan 1 waits for `one`.")
    assert accepted(blocking, "two") is None
    assert events(blocking)[-1] == "plan_blocked"
    row = next(row for row in blocking.ok("report.dashboard")["features"] if row["feature_id"] == "two")
    assert row["blocked_by"] == ["one"]


@pytest.mark.req("AOP-208")
def test_without_the_policy_a_collision_changes_nothing(world: World) -> None:
    world.plan("one")
    world.init("two")
    assert world.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))["code"] == "collision_detected"
    assert waiting(world) == []


def test_a_plan_that_is_wrong_by_itself_does_not_wait(blocking: World) -> None:
    error = blocking.refusal(
        "plan.submit", feature_id="two", plan_json=plan_for("two", files=files(modify=("src/a.txt", ".git/config")))
    )
    assert error["code"] == "path_out_of_bounds"
    assert waiting(blocking) == []


def test_the_same_call_sent_twice_waits_once(blocking: World) -> None:
    first, second = (
        blocking.call("plan.submit", operation="op-same", feature_id="two", plan_json=plan_for("two")) for _ in range(2)
    )
    assert first.as_json() == second.as_json()
    assert (waiting(blocking), events(blocking).count("plan_blocked")) == (["two"], 1)


def test_a_blocked_feature_is_not_patched(blocking: World) -> None:
    blocked(blocking)
    error = blocking.refusal(
        "repo.apply_patch", role=Role.BUILDER, feature_id="two", unified_diff=patch_of("src/c.txt", "x")
    )
    assert error["code"] == "plan_required"


# --- being let in --------------------------------------------------------------------------------


@pytest.mark.req("AOP-210")
def test_a_plan_is_accepted_when_the_other_one_lets_go_of_the_place(blocking: World) -> None:
    blocked(blocking)
    assert revise(blocking, "one", 2, files=files(modify=("src/b.txt",))).ok
    assert accepted(blocking, "two") == plan_for("two")
    assert status(blocking, "two") == ("building", "Plan 1 was accepted: it no longer collides with another plan.")
    assert (waiting(blocking), state_of(blocking, "two").collisions.files) == ([], ())
    with blocking.app.record.read() as view:
        event = list(view.journal())[-1].event
    assert (event.kind, event.feature_id, event.actor) == ("plan_accepted", "two", "person:ada")
    assert (event.payload["let_in_by"], "waited_since" in event.payload) == ("person:ada", True)
    assert json.loads((blocking.root / "agentic/features/two/plan.json").read_text()) == plan_for("two")


@pytest.mark.req("AOP-210")
@pytest.mark.parametrize("how", ["merged", "failed", "deleted"])
def test_a_plan_is_accepted_when_the_other_feature_ends(blocking: World, how: str) -> None:
    blocked(blocking)
    if how == "merged":
        blocking.patch("one")
        for mode in ("fast", "full"):
            blocking.ok("gates.run", feature_id="one", mode=mode)
        blocking.ok("feature.ready_to_merge", feature_id="one", user_approval_token=blocking.approval("one"))
    elif how == "failed":
        version = state_of(blocking, "one").version
        patch = {"status": "failed", "status_reason": "It is not wanted any more."}
        blocking.ok("feature.state_patch", feature_id="one", expected_version=version, patch=patch)
    else:
        blocking.ok("feature.delete", feature_id="one", dry_run=False)
    assert (waiting(blocking), status(blocking, "two")[0]) == ([], "building")


@pytest.mark.req("AOP-211")
def test_of_two_that_wait_for_one_place_the_older_gets_it(blocking: World) -> None:
    clock = clocked(blocking)
    blocked(blocking, "three")
    clock.go_on(1)
    blocked(blocking, "two")
    revise(blocking, "one", 2, files=files(modify=("src/b.txt",)))
    assert (waiting(blocking), status(blocking, "three")[0]) == (["two"], "building")
    assert status(blocking, "two") == ("blocked", "Plan 1 waits for `three`.")
    assert index_of(blocking)["blocked_queue"][0]["detected_at"] == "2026-01-02T12:00:01.000Z"


@pytest.mark.req("AOP-211")
def test_of_two_that_began_to_wait_at_once_the_lesser_name_is_first(blocking: World) -> None:
    clocked(blocking)
    blocked(blocking, "two")
    blocked(blocking, "three")
    assert waiting(blocking) == ["three", "two"]


def test_a_younger_plan_is_let_in_while_an_older_one_must_wait_on(blocking: World) -> None:
    blocked(blocking, "two", files=files(modify=("src/a.txt", "src/b.txt")))
    assert revise(blocking, "one", 2, files=files(modify=("src/a.txt", "README.md")), allowed_areas=["**"]).ok
    blocked(blocking, "three", files=files(modify=("README.md",)), allowed_areas=["**"])
    assert revise(blocking, "one", 3, files=files(modify=("src/a.txt",))).ok
    assert (waiting(blocking), status(blocking, "three")[0]) == (["two"], "building")


def test_one_acceptance_that_lets_go_lets_in_the_next(blocking: World) -> None:
    """`two` waits with a revision that gives up a file that `three` wants."""
    assert submit(blocking, "two", files=files(modify=("src/b.txt",))) is None
    blocked(blocking, "three", files=files(modify=("src/b.txt",)))
    assert revise(blocking, "two", 2, files=files(modify=("src/a.txt",))).error["code"] == "blocked_by_collision_policy"
    assert waiting(blocking) == ["three", "two"]
    revise(blocking, "one", 2, files=files(create=("src/c.txt",)))
    assert waiting(blocking) == []
    assert [status(blocking, feature)[0] for feature in ("two", "three")] == ["building", "building"]
    assert accepted(blocking, "two")["plan_version"] == 2


# --- sending another plan ------------------------------------------------------------------------


def test_the_same_plan_keeps_its_place_and_another_one_goes_to_the_end(blocking: World) -> None:
    clock = clocked(blocking)
    blocked(blocking, "two")
    clock.go_on(1)
    blocked(blocking, "three")
    clock.go_on(1)
    blocked(blocking, "two")
    assert waiting(blocking) == ["two", "three"]
    blocked(blocking, "two", summary="Another way")
    assert waiting(blocking) == ["three", "two"]
    assert status(blocking, "two")[0] == "blocked"


def test_a_revised_plan_that_collides_with_none_is_accepted_at_once(blocking: World) -> None:
    blocked(blocking, "two")
    assert submit(blocking, "two", files=files(modify=("src/b.txt",))) is None
    assert (waiting(blocking), status(blocking, "two")[0]) == ([], "building")


def test_a_feature_that_is_taken_out_of_blocked_by_hand_leaves_the_queue(blocking: World) -> None:
    blocked(blocking, "two")
    patch = {"status": "planning", "status_reason": "The plan is rethought."}
    version = state_of(blocking, "two").version
    blocking.ok("feature.state_patch", feature_id="two", expected_version=version, patch=patch)
    assert waiting(blocking) == []
    revise(blocking, "one", 2, files=files(modify=("src/b.txt",)))
    assert (status(blocking, "two")[0], accepted(blocking, "two")) == ("planning", None)


def test_a_deleted_feature_waits_for_nothing(blocking: World) -> None:
    blocked(blocking, "two")
    blocking.ok("feature.delete", feature_id="two", dry_run=False)
    assert waiting(blocking) == []


def test_a_plan_that_the_policy_forbids_meanwhile_is_given_back(blocking: World) -> None:
    blocked(blocking, "two", files=files(modify=("src/a.txt", "src/b.txt")))
    (blocking.root / POLICY).write_text(yaml(version=1, collision_policy="block", protected_areas=["src/b.txt"]))
    git(blocking.root, "commit", "-qam", "Protect a file")
    revise(blocking, "one", 2, files=files(create=("src/c.txt",)))
    assert waiting(blocking) == []
    state, reason = status(blocking, "two")
    assert (state, reason.partition(":")[0]) == ("planning", "Plan 1 left the queue")
    assert events(blocking)[-1] == "blocked_plan_refused"


# --- locks ---------------------------------------------------------------------------------------


@pytest.mark.req("AOP-209", "AOP-210")
def test_a_plan_that_waits_gets_its_locks_together_with_its_acceptance(make_world: MakeWorld) -> None:
    world = make_world(policy={"collision_policy": "block"})
    for feature in ("one", "two"):
        world.init(feature)
    world.ok("locks.acquire", feature_id="one", resource="openapi")
    assert submit(world, "one", contracts=OPENAPI) is None
    details = blocked(world, "two", contracts=OPENAPI, files=files(modify=("src/b.txt",)))
    assert details["blocked_queue_entry"]["required_resources"] == ["openapi"]
    revise(world, "one", 2)
    assert status(world, "two") == ("blocked", "Plan 1 waits for `one`.")
    released = world.ok("locks.release", feature_id="one", resource="openapi")
    assert (released["accepted_plans"], waiting(world)) == (["two"], [])
    assert state_of(world, "two").locks == HeldLocks(held=("openapi",), relied_on={"openapi": 2})
    assert index_of(world)["locks"] == {"openapi": "two"}


def test_a_plan_that_needs_a_lock_and_collides_with_none_is_refused_without_it(blocking: World) -> None:
    plan = plan_for("two", contracts=OPENAPI, files=files(modify=("src/b.txt",)))
    assert blocking.refusal("plan.submit", feature_id="two", plan_json=plan)["code"] == "lock_not_held"


def test_who_waits_lets_go_of_the_locks_that_the_other_plan_needs(make_world: MakeWorld) -> None:
    """Otherwise `one` could not be merged without the lock, nor `two` begin before `one` is merged."""
    world = make_world(policy={"collision_policy": "block"})
    for feature in ("one", "two"):
        world.init(feature)
    world.ok("locks.acquire", feature_id="one", resource="openapi")
    assert submit(world, "one", contracts=OPENAPI) is None
    world.ok("locks.release", feature_id="one", resource="openapi")
    for resource in ("events", "openapi"):
        world.ok("locks.acquire", feature_id="two", resource=resource)
    blocked(world, "two", contracts=OPENAPI, files=files(modify=("src/b.txt",)))
    assert state_of(world, "two").locks.held == ("events",)
    assert world.ok("locks.acquire", feature_id="one", resource="openapi")["fence"] == 3


def test_the_queue_is_looked_at_again_when_a_lease_that_ended_is_noticed(make_world: MakeWorld, tmp_path: Path) -> None:
    world = make_world(policy={"collision_policy": "block"})
    clock = clocked(world)
    for feature in ("one", "two", "three"):
        world.init(feature)
    world.ok("locks.acquire", feature_id="one", resource="openapi")
    assert submit(world, "one", contracts=OPENAPI) is None
    blocked(world, "two", contracts=OPENAPI, files=files(modify=("src/b.txt",)))
    revise(world, "one", 2)
    clock.go_on(301)
    world.ok("locks.acquire", feature_id="three", resource="events")
    assert (waiting(world), state_of(world, "two").locks.held) == ([], ("openapi",))
