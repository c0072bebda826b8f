"""collisions.scan: where plans meet, who is told of it, and which of them would conflict in truth."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.documents import AcceptedPlan, Plan, Status
from tests.tools.worlds import POLICY, force, plain, yaml
from tests.world import World, files, git, plan_for

NO_CONTRACTS = {"openapi": "none", "events": "none", "db": "none"}


def put_plan(world: World, feature: str, **changes: Any) -> None:
    """Let a feature have an accepted plan that no other was compared with."""
    world.init(feature)
    plan = msgspec.convert(plan_for(feature, allowed_areas=["**"], **changes), Plan)
    with world.app.record.write() as tx:
        tx.put(AcceptedPlan(version=1, plan=plan), feature)


def holder(feature: str, planned: str) -> dict[str, Any]:
    return {"feature_id": feature, "planned": planned, "plan_version": 1, "queued": False}


def places(world: World) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return what a scan finds, in short."""
    found = plain(world.ok("collisions.scan"))["collisions"]
    return [
        (each["kind"], each["identifier"], [(who["feature_id"], who["planned"]) for who in each["holders"]])
        for each in found
    ]


@pytest.mark.req("AOP-201", "AOP-212")
def test_plans_that_keep_apart_share_no_place(world: World) -> None:
    world.plan("one")
    world.plan("two", files=files(modify=("src/b.txt",)))
    world.init("three")

    scanned = plain(world.ok("collisions.scan", role=Role.PLANNER))

    assert (scanned["compared_plans"], scanned["collisions"]) == (2, [])


@pytest.mark.req("AOP-201", "AOP-204", "AOP-212")
def test_a_place_is_named_with_all_who_reach_it_and_with_what_to_do(world: World) -> None:
    put_plan(world, "one", files=files(modify=("src/a.txt",)))
    put_plan(world, "two", files=files(modify=("SRC/A.TXT",)))
    put_plan(world, "three", files=files(create=("src/",)))

    first, second = (plain(world.ok("collisions.scan")) for _ in range(2))

    assert first == second
    (place,) = first["collisions"]
    fingerprint = place.pop("collision_fingerprint")
    assert place == {
        "kind": "file",
        "identifier": "src/a.txt",
        "holders": [holder("one", "src/a.txt"), holder("three", "src/"), holder("two", "SRC/A.TXT")],
        "recommended_actions": [
            {
                "action": "revise_plan",
                "message": "Revise all of these plans but one, so that they leave `src/a.txt` alone.",
            },
            {
                "action": "shared_prerequisite_feature",
                "message": "Put what they all do to `src/a.txt` into a feature of its own, and merge that one first.",
            },
        ],
    }
    assert len(fingerprint) == len(first["collision_fingerprint"]) == 64
    force(world, "two", status=Status.FAILED)
    fewer = plain(world.ok("collisions.scan"))
    assert [who["feature_id"] for who in fewer["collisions"][0]["holders"]] == ["one", "three"]
    assert fewer["collisions"][0]["collision_fingerprint"] != fingerprint


@pytest.mark.req("AOP-205")
def test_an_area_that_the_policy_made_exclusive_afterwards_is_found(world: World) -> None:
    world.plan("one")
    world.plan("two", files=files(modify=("src/b.txt",)))
    (world.root / POLICY).write_text(yaml(version=1, exclusive_areas=["src"]))
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Only one in src")

    assert places(world) == [("area", "src", [("one", "src"), ("two", "src")])]


@pytest.mark.parametrize(
    ("contracts", "kind", "identifier", "resource"),
    [
        pytest.param({"openapi": "modify"}, "contract", "openapi", "openapi", marks=pytest.mark.req("AOP-206")),
        pytest.param({"events": "modify"}, "contract", "events", "events", marks=pytest.mark.req("AOP-206")),
        pytest.param({"db": "migration"}, "migration", "db", "db_migrations", marks=pytest.mark.req("AOP-207")),
    ],
)
def test_a_contract_that_two_plans_change_wants_its_lock(
    world: World, contracts: dict[str, str], kind: str, identifier: str, resource: str
) -> None:
    for feature in ("one", "two"):
        put_plan(world, feature, contracts={**NO_CONTRACTS, **contracts}, files=files(modify=(f"src/{feature}",)))

    (place,) = plain(world.ok("collisions.scan"))["collisions"]

    assert (place["kind"], place["identifier"]) == (kind, identifier)
    assert place["recommended_actions"][0] == {
        "action": "acquire_lock",
        "message": f"Let them change `{identifier}` one after the other: each acquires the lock `{resource}` in turn.",
    }


def test_a_worker_sees_the_places_of_its_own_feature_only(world: World) -> None:
    put_plan(world, "one")
    put_plan(world, "two")
    put_plan(world, "three", files=files(modify=("src/b.txt",)))
    put_plan(world, "four", files=files(modify=("src/b.txt",)))

    answer = world.call_as_worker("collisions.scan", Role.PLANNER, "three")

    assert [each["identifier"] for each in plain(answer.data)["collisions"]] == ["src/b.txt"]
