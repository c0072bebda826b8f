"""run.began: what a run finds when it begins, and what became of leases while no supervisor ran."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.roles import Role
from tests.clocks import clocked
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import state_of
from tests.world import World, files, plan_for

TTL = 300
OPENAPI = {"openapi": "modify", "events": "none", "db": "none"}
ORDER = {
    "run": "run-1",
    "started_by": "person:ada",
    "features": ["one"],
    "providers": {"planner": {"provider": "custom"}},
    "limits": {"active_features": 5},
}


def holding(world: World) -> None:
    """Have a feature whose plan relies on a lock."""
    world.init()
    world.init("two")
    world.ok("locks.acquire", feature_id="one", resource="openapi")
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one", contracts=OPENAPI))


def began(world: World, **more: Any) -> Any:
    return world.ok("run.began", role=Role.SYSTEM, order={**ORDER, **more})


@pytest.mark.req("AOP-256")
@pytest.mark.parametrize(("seconds", "taken"), [(TTL - 1, False), (TTL, False), (TTL, True)])
def test_a_feature_whose_lease_ended_and_whose_lock_others_got_is_blocked_and_no_other(
    make_world: MakeWorld, seconds: int, *, taken: bool
) -> None:
    world = make_world()
    clock = clocked(world)
    holding(world)
    clock.go_on(seconds)
    if taken:
        world.ok("locks.acquire", feature_id="two", resource="openapi")
    pending = began(world)["pending"]
    reason = "Its lease on `openapi` expired, and `two` got the lock. Its work is checked again before it continues."
    assert pending["lost_locks"] == (["one"] if taken else [])
    assert (state_of(world).status, state_of(world).status_reason) == (
        ("blocked", reason) if taken else ("building", "")
    )
    assert (state_of(world, "two").status, began(world)["pending"]["lost_locks"]) == ("planning", [])


@pytest.mark.req("AOP-257")
def test_what_is_on_its_way_is_listed_when_a_run_begins(make_world: MakeWorld) -> None:
    world = make_world(policy={"collision_policy": "block"})
    world.ready("merged")
    token = world.approval("merged")
    world.ok("feature.ready_to_merge", feature_id="merged", user_approval_token=token)
    world.plan("one", files=files(create=("src/new.txt",)))
    world.patch("one", "--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1 @@\n+x\n")
    world.init("two")
    world.call("plan.submit", feature_id="two", plan_json=plan_for("two", files=files(create=("src/new.txt",))))
    pending = began(world, unfinished_gates=["one"])["pending"]
    assert pending == {
        "features": {"one": "building", "two": "blocked"},
        "queued_plans": ["two"],
        "unfinished_gates": ["one"],
        "qa_items": {"one": 1},
        "lost_locks": [],
    }
    assert world.ok("report.dashboard")["newest_run"]["pending"] == pending
