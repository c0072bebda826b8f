"""locks.acquire and locks.release: who holds what, for how long, and who is next."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from aop.core.roles import Role
from tests.clocks import HandClock, clocked
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import events, force, plain, state_of
from tests.world import World

TTL = 300


@pytest.fixture
def two(world: World) -> World:
    """Two features."""
    world.init("one")
    world.init("two")
    return world


@pytest.fixture
def clock(two: World) -> HandClock:
    """The clock of that world, which stands still."""
    return clocked(two)


def acquire(world: World, feature: str = "one", resource: str = "openapi", **words: Any) -> Any:
    return plain(world.ok("locks.acquire", feature_id=feature, resource=resource, **words))


def conflict(world: World, feature: str = "two", resource: str = "openapi", **words: Any) -> Any:
    error = world.refusal(
        "locks.acquire", feature_id=feature, resource=resource, **{"wait_timeout_seconds": 0, **words}
    )
    assert error["code"] == "lock_conflict"
    return plain(error)


def index_of(world: World) -> Any:
    return json.loads((world.root / "agentic/features/index.json").read_text())


def told(world: World, kind: str) -> list[Any]:
    with world.app.record.read() as view:
        return [(entry.event.feature_id, plain(entry.event.payload)) for entry in view.journal(kinds=(kind,))]


# --- acquire and release -------------------------------------------------------------------------


@pytest.mark.req("AOP-096", "AOP-097", "AOP-199", "AOP-218")
@pytest.mark.usefixtures("clock")
def test_a_lock_is_held_by_one_feature_and_shown(two: World) -> None:
    answer = acquire(two)

    lease = {
        "lease_id": "openapi#1",
        "fence": 1,
        "acquired_at": "2026-01-02T12:00:00.000Z",
        "renewed_at": "2026-01-02T12:00:00.000Z",
        "expires_at": "2026-01-02T12:05:00.000Z",
    }
    assert answer == {
        "feature_id": "one",
        "version": 2,
        "resource": "openapi",
        "outcome": "acquired",
        "holder": "person:ada",
        "lease_ttl_seconds": TTL,
        **lease,
    }
    index = index_of(two)
    assert (index["locks"], index["lock_leases"]) == ({"openapi": "one"}, {"openapi": {"holder": "one", **lease}})
    assert state_of(two).locks.held == ("openapi",)
    assert two.ok("report.dashboard")["features"][0]["locks"] == ["openapi"]
    assert told(two, "lock_acquired") == [("one", {"resource": "openapi", "fence": 1})]


@pytest.mark.req("AOP-200")
def test_a_released_lock_is_free_and_its_next_number_is_new(two: World) -> None:
    acquire(two)
    answer = two.ok("locks.release", feature_id="one", resource="openapi")
    assert plain(answer) == {"feature_id": "one", "version": 3, "resource": "openapi", "accepted_plans": []}
    assert (index_of(two)["locks"], index_of(two)["lock_leases"]) == ({"openapi": None}, {})
    assert state_of(two).locks.held == ()
    assert acquire(two, "two")["fence"] == 2
    assert events(two)[2:] == ["lock_acquired", "lock_released", "lock_acquired"]


@pytest.mark.req("AOP-200")
def test_only_the_holder_releases_a_lock(two: World) -> None:
    acquire(two)
    error = two.refusal("locks.release", feature_id="two", resource="openapi")
    assert (error["code"], error["details"]["holder"]) == ("lock_not_held", "one")
    assert two.refusal("locks.release", feature_id="two", resource="events")["code"] == "lock_not_held"


@pytest.mark.req("AOP-214")
@pytest.mark.parametrize("tool", ["locks.acquire", "locks.release"])
@pytest.mark.parametrize("name", ["openapi2", "OpenAPI", " openapi", "protected:src", "../x"])
def test_a_resource_that_the_policy_does_not_name_is_refused_with_those_it_does(
    two: World, tool: str, name: str
) -> None:
    error = two.refusal(tool, feature_id="one", resource=name)
    assert (error["code"], error["details"]["known_resources"]) == (
        "unknown_lock_resource",
        ["db_migrations", "events", "openapi"],
    )


def test_a_feature_that_has_ended_gets_no_lock(two: World) -> None:
    force(two, status="failed")
    two.ok("feature.init", feature_id="two")
    assert two.refusal("locks.acquire", feature_id="one", resource="openapi")["code"] == "invalid_status_transition"
    assert two.refusal("locks.acquire", feature_id="three", resource="openapi")["code"] == "unknown_feature"


@pytest.mark.req("AOP-159")
@pytest.mark.parametrize("role", [Role.PLANNER, Role.BUILDER, Role.QA])
def test_workers_do_not_reach_locks(two: World, role: Role) -> None:
    for tool in ("locks.acquire", "locks.release"):
        answer = two.call_as_worker(tool, role, "one", feature_id="one", resource="openapi")
        assert answer.error is not None
        assert answer.error["code"] == "forbidden_tool_for_role"


# --- order ---------------------------------------------------------------------------------------


@pytest.mark.req("AOP-031")
def test_locks_are_acquired_in_the_order_of_their_names(two: World) -> None:
    acquire(two, resource="events")
    acquire(two, resource="openapi")
    error = plain(two.refusal("locks.acquire", feature_id="one", resource="db_migrations"))
    assert (error["code"], error["details"]["release_first"], error["details"]["acquire_in_order"]) == (
        "lock_order_violation",
        ["events", "openapi"],
        ["db_migrations", "events", "openapi"],
    )
    assert acquire(two, resource="events")["outcome"] == "renewed"


def test_a_lease_that_has_ended_does_not_stand_in_the_order(two: World, clock: HandClock) -> None:
    acquire(two, resource="openapi")
    clock.go_on(TTL)
    assert acquire(two, resource="events")["outcome"] == "acquired"


# --- leases --------------------------------------------------------------------------------------


@pytest.mark.req("AOP-199", "AOP-219")
def test_acquiring_what_one_holds_renews_it_under_the_same_number(two: World, clock: HandClock) -> None:
    acquire(two)
    before = state_of(two).version
    clock.go_on(TTL - 1)
    answer = acquire(two)
    assert (answer["outcome"], answer["fence"], answer["expires_at"]) == ("renewed", 1, "2026-01-02T12:09:59.000Z")
    assert index_of(two)["lock_leases"]["openapi"]["expires_at"] == "2026-01-02T12:09:59.000Z"
    assert state_of(two).version == before
    clock.go_on(TTL - 1)
    assert conflict(two)["details"]["expires_in_seconds"] == 1


@pytest.mark.req("AOP-220")
def test_a_lease_that_ended_is_reclaimed_with_evidence(two: World, clock: HandClock) -> None:
    acquire(two)
    clock.go_on(TTL)
    answer = two.call("locks.acquire", feature_id="two", resource="openapi")
    evidence = {
        "old_holder": "one",
        "old_actor": "person:ada",
        "old_fence": 1,
        "new_fence": 2,
        "acquired_at": "2026-01-02T12:00:00.000Z",
        "renewed_at": "2026-01-02T12:00:00.000Z",
        "reason": "it was not renewed in time",
    }
    assert (answer.ok, plain(answer.evidence)) == (True, {"stale_lock_reclaimed": evidence})
    assert told(two, "stale_lock_reclaimed") == [("one", {"resource": "openapi", "new_holder": "two", **evidence})]
    assert (state_of(two, "one").locks.held, state_of(two, "two").locks.held) == ((), ("openapi",))
    assert two.refusal("locks.release", feature_id="one", resource="openapi")["code"] == "lock_not_held"


def test_a_feature_whose_lease_ended_goes_on_under_its_number_if_nobody_took_it(two: World, clock: HandClock) -> None:
    acquire(two)
    clock.go_on(TTL * 10)
    answer = two.call("locks.acquire", feature_id="one", resource="openapi")
    assert answer.ok
    assert (answer.data["outcome"], answer.data["fence"]) == ("renewed", 1)
    assert answer.evidence["stale_lock_reclaimed"]["new_fence"] == 1


@pytest.mark.hostile("S23")
@pytest.mark.parametrize("jump", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=-365 * 60)], ids=str)
def test_the_time_of_day_neither_ends_a_lease_nor_keeps_it(two: World, clock: HandClock, jump: timedelta) -> None:
    acquire(two)
    clock.wall += jump
    clock.go_on(TTL - 1)
    assert conflict(two)["details"]["holder"] == "one"
    clock.go_on(1)
    assert acquire(two, "two")["fence"] == 2


@pytest.mark.hostile("S25")
@pytest.mark.parametrize(("boot", "later"), [("another", 1.0), ("another", -900.0), ("", -900.0)])
def test_no_lease_outlives_the_machines_start(two: World, clock: HandClock, boot: str, later: float) -> None:
    acquire(two)
    clock.boot, clock.seconds = boot or clock.boot, clock.seconds + later
    answer = two.call("locks.acquire", feature_id="two", resource="openapi")
    assert answer.ok
    assert answer.evidence["stale_lock_reclaimed"]["reason"] == "the machine was started again"


@pytest.mark.hostile("S41")
@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_a_lease_can_be_had_at_any_end_of_time(two: World, clock: HandClock, year: int) -> None:
    clock.wall = clock.wall.replace(year=year, month=12, day=31, hour=23, minute=59)
    assert acquire(two)["fence"] == 1


# --- waiting -------------------------------------------------------------------------------------


@pytest.mark.req("AOP-221", "AOP-240")
def test_a_lock_that_stays_held_is_a_conflict_after_the_wait(two: World, clock: HandClock) -> None:
    acquire(two)
    error = conflict(two, wait_timeout_seconds=100)
    assert error["message"] == "`openapi` is not free: `one` holds it since 2026-01-02T12:00:00.000Z."
    details = error["details"]
    assert {key: details[key] for key in ("retryable", "holder", "held_by_actor", "held_since", "expires_at")} == {
        "retryable": True,
        "holder": "one",
        "held_by_actor": "person:ada",
        "held_since": "2026-01-02T12:00:00.000Z",
        "expires_at": "2026-01-02T12:05:00.000Z",
    }
    assert (details["conflicting_feature_ids"], details["expires_in_seconds"]) == (["one"], 200)
    assert sum(clock.pauses) == pytest.approx(100)
    doubled = [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert all(0.8 * most <= pause <= most for pause, most in zip(clock.pauses[:-1], doubled, strict=False))


def test_a_waiter_gets_the_lock_when_it_is_released(two: World, clock: HandClock) -> None:
    acquire(two)
    clock.meanwhile = lambda: len(clock.pauses) == 3 and two.ok("locks.release", feature_id="one", resource="openapi")
    assert acquire(two, "two")["fence"] == 2
    assert len(clock.pauses) == 3


def test_a_waiter_looks_again_when_the_lease_ends(two: World, clock: HandClock) -> None:
    acquire(two)
    clock.go_on(TTL - 0.25)
    acquire(two, "two")
    assert clock.pauses == [0.25]


def test_a_policy_that_does_not_wait_fails_at_once(make_world: MakeWorld) -> None:
    world = make_world(policy={"locks": {"acquire_behavior": "fail"}})
    clock = clocked(world)
    for feature in ("one", "two"):
        world.init(feature)
    acquire(world)
    assert world.refusal("locks.acquire", feature_id="two", resource="openapi")["code"] == "lock_conflict"
    assert clock.pauses == []
    assert conflict(world, wait_timeout_seconds=1)
    assert sum(clock.pauses) == pytest.approx(1)
