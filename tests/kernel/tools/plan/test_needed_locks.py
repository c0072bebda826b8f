"""Which locks a plan, a patch and a merge need, and what happens to a feature that lost one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from aop.core.ids import TreeId
from aop.core.roles import Role
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.git import Git, GitObjects
from aop.wiring.catalogue import CATALOGUE
from tests.clocks import HandClock, clocked
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import patch_of, plain, state_of
from tests.world import PATCH, World, files, git, plan_for

TTL = 300
NO_CONTRACTS = {"openapi": "none", "events": "none", "db": "none"}
OPENAPI = {**NO_CONTRACTS, "openapi": "modify"}
REVISION = {"plan_version": 2, "revision_of": 1}


def hold(world: World, feature: str = "one", resource: str = "openapi") -> int:
    return int(world.ok("locks.acquire", feature_id=feature, resource=resource)["fence"])


def submit(world: World, feature: str = "one", **changes: Any) -> Any:
    return world.ok("plan.submit", feature_id=feature, plan_json=plan_for(feature, **changes))


def plan_of(path: str) -> dict[str, Any]:
    return {"allowed_areas": ["**"], "files": files(create=(path,))}


def refused_plan(world: World, feature: str = "one", **changes: Any) -> Any:
    return plain(world.refusal("plan.submit", feature_id=feature, plan_json=plan_for(feature, **changes)))


def refused_patch(world: World, diff: str = PATCH) -> Any:
    return plain(world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff))


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contracts", "resource"),
    [
        pytest.param({"openapi": "modify"}, "api", marks=pytest.mark.req("AOP-215")),
        pytest.param({"events": "modify"}, "events", marks=pytest.mark.req("AOP-216")),
        pytest.param({"db": "migration"}, "tables", marks=pytest.mark.req("AOP-217")),
    ],
)
@pytest.mark.req("AOP-222")
def test_a_plan_that_changes_a_contract_needs_the_lock_that_the_policy_names(
    make_world: MakeWorld, contracts: dict[str, str], resource: str
) -> None:
    named = {"openapi": "api", "events": "events", "db": "tables"}
    world = make_world(policy={"locks": {"resources": ["api", "events", "tables"], "contract_to_resource": named}})
    world.init("one")
    world.init("two")
    hold(world, "two", resource)
    error = refused_plan(world, contracts={**NO_CONTRACTS, **contracts})
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", [resource])
    assert error["details"]["holders"] == {resource: "two"}
    world.ok("locks.release", feature_id="two", resource=resource)
    hold(world, "one", resource)
    submit(world, contracts={**NO_CONTRACTS, **contracts})
    assert state_of(world).locks.relied_on == {resource: 2}


@pytest.mark.req("AOP-083", "AOP-222")
def test_a_revision_that_begins_to_change_a_contract_needs_its_lock(world: World) -> None:
    world.plan()
    plan = plan_for("one", contracts=OPENAPI, **REVISION)
    error = world.refusal("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    assert error["code"] == "lock_not_held"
    hold(world)
    world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("api/openapi.yaml", "openapi"),
        ("openapi.json", "openapi"),
        ("api/OpenAPI.YAML", "openapi"),
        ("asyncapi.yml", "events"),
        ("app/migrations/0002_more.py", "db_migrations"),
    ],
)
def test_a_plan_that_names_a_contract_file_needs_its_lock_whatever_it_declares(
    world: World, path: str, resource: str
) -> None:
    world.init()
    error = refused_plan(world, **plan_of(path))
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", [resource])
    hold(world, resource=resource)
    submit(world, **plan_of(path))


# --- patches -------------------------------------------------------------------------------------


@pytest.mark.req("AOP-175", "AOP-223")
def test_a_patch_of_a_contract_file_needs_its_lock_even_if_a_pattern_plans_it(world: World) -> None:
    world.plan(allowed_areas=["**"], files=files(create=("api/*",)))
    diff = patch_of("api/openapi.yaml", "openapi: 3.1.0")
    error = refused_patch(world, diff)
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", ["openapi"])
    hold(world)
    world.patch(diff=diff)
    assert state_of(world).locks.relied_on == {"openapi": 1}
    world.ok("locks.release", feature_id="one", resource="openapi")
    world.patch(diff=patch_of("api/notes.txt", "free"))


@pytest.fixture
def holder(world: World) -> World:
    """`one` holds `openapi` and has a plan that needs it; `two` stands by."""
    world.init("one")
    world.init("two")
    hold(world)
    submit(world, contracts=OPENAPI)
    return world


@pytest.fixture
def clock(holder: World) -> HandClock:
    return clocked(holder)


@pytest.mark.req("AOP-024", "AOP-223")
def test_a_holder_whose_lease_ended_cannot_patch_until_it_renews_it(holder: World, clock: HandClock) -> None:
    clock.go_on(TTL)
    assert refused_patch(holder)["code"] == "lock_not_held"
    assert hold(holder) == 1
    holder.patch()


@pytest.mark.hostile("S25")
def test_a_holder_cannot_patch_after_a_restart_of_the_machine_until_it_renews(holder: World, clock: HandClock) -> None:
    clock.boot = "another"
    assert refused_patch(holder)["code"] == "lock_not_held"
    hold(holder)
    holder.patch()


@pytest.mark.req("AOP-220", "AOP-223")
def test_a_holder_that_lost_its_lease_to_another_cannot_go_on_even_with_the_lock(
    holder: World, clock: HandClock
) -> None:
    clock.go_on(TTL)
    assert hold(holder, "two") == 2
    error = refused_patch(holder)
    assert (error["code"], error["details"]["holders"]) == ("lock_not_held", {"openapi": "two"})
    holder.ok("locks.release", feature_id="two", resource="openapi")
    assert hold(holder) == 3
    error = refused_patch(holder)
    assert (error["code"], error["details"]["relied_on"], error["details"]["current"]) == (
        "stale_lock_reclaimed",
        {"openapi": 1},
        {"openapi": 3},
    )
    plan = plan_for("one", contracts=OPENAPI, **REVISION)
    holder.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    holder.patch()


class BusyGit:
    """Implements `aop.kernel.ports.git.Git`: before a patch is stored, something else happens."""

    def __init__(self, git: Git, meanwhile: Callable[[], object]) -> None:
        self.objects = BusyObjects(git.objects, meanwhile)
        self.branches, self.worktrees, self.merges = git.branches, git.worktrees, git.merges


class BusyObjects:
    def __init__(self, objects: GitObjects, meanwhile: Callable[[], object]) -> None:
        self._objects, self._meanwhile = objects, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def diff(self, old: TreeId, new: TreeId, *, context_lines: int) -> bytes:
        self._meanwhile()
        return self._objects.diff(old, new, context_lines=context_lines)


def patch_while(world: World, meanwhile: Callable[[], object]) -> Any:
    """Apply a patch, and do something else after it was judged and before it is stored."""
    kernel = world.app.gateway.kernel
    busy = msgspec.structs.replace(kernel, git=cast("Git", BusyGit(kernel.git, meanwhile)))
    arguments = {"feature_id": "one", "unified_diff": PATCH}
    who = msgspec.structs.replace(world.app.person, role=Role.BUILDER)
    return Gateway(busy, CATALOGUE).call(who, "repo.apply_patch", arguments)


def test_a_lock_that_comes_while_a_patch_is_judged_is_not_forgotten(world: World) -> None:
    world.plan()
    assert patch_while(world, lambda: hold(world)).ok
    assert state_of(world).locks.held == ("openapi",)


@pytest.mark.req("AOP-223")
def test_a_lock_that_goes_while_a_patch_is_judged_stops_it(holder: World) -> None:
    before = state_of(holder).tree
    answer = patch_while(holder, lambda: holder.ok("locks.release", feature_id="one", resource="openapi"))
    assert (answer.error["code"], state_of(holder).tree) == ("lock_not_held", before)


def test_a_plan_that_comes_while_a_patch_is_judged_stops_it(world: World) -> None:
    world.plan()
    plan = plan_for("one", files=files(modify=("src/b.txt",)), **REVISION)
    answer = patch_while(
        world, lambda: world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    )
    assert answer.error["code"] == "version_conflict"


# --- merges --------------------------------------------------------------------------------------


def make_ready(world: World) -> str:
    """Bring `one` to an approval; return the token."""
    world.patch()
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    return world.approval()


def refused_merge(world: World, token: str) -> Any:
    return plain(world.refusal("feature.ready_to_merge", feature_id="one", user_approval_token=token))


@pytest.mark.req("AOP-224")
def test_a_holder_that_lost_its_lease_to_another_cannot_merge(holder: World, clock: HandClock) -> None:
    token = make_ready(holder)
    clock.go_on(TTL)
    hold(holder, "two")
    assert refused_merge(holder, token)["code"] == "lock_not_held"
    missing = plain(holder.ok("report.feature_summary", feature_id="one")["missing"])
    assert [each["code"] for each in missing] == ["lock_not_held"]
    holder.ok("locks.release", feature_id="two", resource="openapi")
    hold(holder)
    assert refused_merge(holder, token)["code"] == "stale_lock_reclaimed"


@pytest.mark.req("AOP-224")
def test_a_merge_needs_the_locks_of_all_contract_files_that_it_changes(world: World) -> None:
    world.plan(allowed_areas=["**"], files=files(("api/*",), ("src/a.txt",)))
    hold(world)
    world.patch(diff=patch_of("api/openapi.yaml", "openapi: 3.1.0"))
    token = make_ready(world)
    world.ok("locks.release", feature_id="one", resource="openapi")
    assert refused_merge(world, token)["code"] == "lock_not_held"


@pytest.mark.req("AOP-224")
def test_a_lease_that_ends_while_the_merge_gates_run_stops_the_merge(holder: World, clock: HandClock) -> None:
    arguments: dict[str, Any] = {"feature_id": "one", "user_approval_token": make_ready(holder)}
    before = git(holder.root, "for-each-ref", "refs/heads")
    clock.gate_seconds = TTL
    error = holder.call("feature.ready_to_merge", **arguments).error
    assert (error and error["code"], state_of(holder).status) == ("lock_not_held", "ready_to_merge")
    assert git(holder.root, "for-each-ref", "refs/heads") == before
    clock.gate_seconds = TTL - 1
    hold(holder)
    holder.ok("feature.ready_to_merge", **arguments)


# --- protected areas -----------------------------------------------------------------------------


@pytest.fixture
def guarded(make_world: MakeWorld) -> World:
    """Two protected areas, one of which has a lock."""
    policy = {
        "protected_areas": ["Deploy/live", "ops/secret"],
        "locks": {"resources": ["openapi", "events", "db_migrations", "protected:Deploy/live"]},
    }
    world = make_world(policy=policy)
    world.init("one")
    return world


@pytest.mark.req("AOP-043", "AOP-173", "AOP-214")
@pytest.mark.parametrize("path", ["Deploy/live/a.yaml", "Deploy/**", "Deploy/live/"])
def test_a_protected_area_with_a_lock_is_open_to_its_holder(guarded: World, path: str) -> None:
    error = refused_plan(guarded, **plan_of(path))
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", ["protected:Deploy/live"])
    hold(guarded, resource="protected:Deploy/live")
    submit(guarded, **plan_of(path))
    guarded.ok("locks.release", feature_id="one", resource="protected:Deploy/live")
    diff = patch_of("Deploy/live/a.yaml", "on: true")
    assert refused_patch(guarded, diff)["code"] == "lock_not_held"


@pytest.mark.req("AOP-173")
def test_a_protected_area_without_a_lock_stays_closed(guarded: World) -> None:
    hold(guarded, resource="protected:Deploy/live")
    assert refused_plan(guarded, **plan_of("ops/secret/a.yaml"))["code"] == "protected_path"
    assert refused_plan(guarded, **plan_of("agentic/x.yaml"))["code"] == "protected_path"


@pytest.mark.hostile("P09")
def test_a_lock_opens_its_area_in_the_letters_of_the_policy_only(guarded: World) -> None:
    hold(guarded, resource="protected:Deploy/live")
    assert refused_plan(guarded, **plan_of("deploy/live/a.yaml"))["code"] == "protected_path"
    submit(guarded, **plan_of("Deploy/**"))
    assert refused_patch(guarded, patch_of("DEPLOY/LIVE/a.yaml", "on: true"))["code"] == "protected_path"
    guarded.patch(diff=patch_of("Deploy/live/a.yaml", "on: true"))


def test_a_lock_on_an_area_that_is_not_protected_is_a_flaw_of_the_policy(make_world: MakeWorld) -> None:
    world = make_world(policy={"locks": {"resources": ["openapi", "events", "db_migrations", "protected:src"]}})
    error = world.refusal("report.dashboard")
    assert (error["code"], "protected_areas" in error["message"]) == ("invalid_configuration", True)
