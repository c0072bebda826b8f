"""plan.versions: every accepted plan stays, and the changes between two are told clause by clause."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.core.errors import Json
from aop.core.ids import FeatureId, OperationId
from aop.core.roles import Role
from aop.kernel.plans.revisions import plan_changes
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import Event
from tests.kernel.tools.worlds import plain
from tests.world import World, plan_for

REVISED = {
    "plan_version": 2,
    "revision_of": 1,
    "revision_reason": "Ada asked for a second file",
    "acceptance_criteria": ["The file says so loudly", "The other file is there"],
    "files": {"create": ["src/new.txt"], "modify": ["src/a.txt"], "delete": []},
}


def revise(world: World, **changes: Any) -> None:
    plan = plan_for("one", **{**REVISED, **changes})
    expected = plan["plan_version"] - 1
    world.ok("plan.update", role=Role.PLANNER, feature_id="one", plan_json=plan, expected_plan_version=expected)


def test_every_accepted_version_is_listed_with_author_and_reason_and_the_newest_two_are_compared(world: World) -> None:
    world.plan()
    alone = plain(world.ok("plan.versions", feature_id="one"))
    assert (alone["old"], alone["new"], alone["changes"]) == (None, None, [])
    revise(world)
    found = plain(world.ok("plan.versions", role=Role.QA, feature_id="one"))
    assert [(each["version"], each["by"], each["why"], each["is_kept"]) for each in found["versions"]] == [
        (1, "person:ada", "", True),
        (2, "person:ada", "Ada asked for a second file", True),
    ]
    assert (found["old"], found["new"], found["earlier"]) == (1, 2, [])
    assert [(each["sentence"], each["old"], each["new"]) for each in found["changes"]] == [
        ("criterion 1 is reworded", "The file says so", "The file says so loudly"),
        ("criterion 2 is new", "", "The other file is there"),
        ("file 1 is new", "", "create src/new.txt"),
    ]


def test_any_two_versions_are_compared_in_both_directions(world: World) -> None:
    world.plan()
    revise(world)
    revise(world, plan_version=3, revision_of=2, summary="Change it all", revision_reason="Better words")
    back = plain(world.ok("plan.versions", feature_id="one", old=3, new=1))
    assert [each["sentence"] for each in back["changes"]] == [
        "summary is reworded",
        "criterion 1 is reworded",
        "criterion 2 is gone",
        "file 1 is gone",
    ]
    assert world.ok("plan.versions", feature_id="one", old=2, new=2)["changes"] == []
    refused = world.refusal("plan.versions", feature_id="one", old=1, new=4)
    assert (refused["code"], refused["message"]) == ("invalid_arguments", "The plan of `one` has no version 4.")


def accepted_by_an_older_aop(world: World, version: int) -> None:
    facts: dict[str, Json] = {"plan_version": version, "summary": f"Plan {version}"}
    plan = plan_for("one", plan_version=version, **({"revision_of": version - 1} if version > 1 else {}))
    event = Event(
        kind="plan_revised" if version > 1 else "plan_accepted",
        at="2026-01-02T03:04:05.678Z",
        actor="planner:one",
        operation_id=OperationId(f"op_old_{version}"),
        feature_id=FeatureId("one"),
        payload=facts,
    )
    with world.app.record.write() as tx:
        tx.put(AcceptedPlan(version=version, plan=msgspec.convert(plan, Plan)), "one")
        tx.append(event)


def test_a_record_of_an_older_aop_lists_its_versions_and_says_which_text_it_has(world: World) -> None:
    world.init()
    accepted_by_an_older_aop(world, 1)
    accepted_by_an_older_aop(world, 2)
    found = plain(world.ok("plan.versions", feature_id="one"))
    assert [(each["version"], each["is_kept"]) for each in found["versions"]] == [(1, False), (2, True)]
    assert (found["old"], found["changes"]) == (None, [])
    refused = world.refusal("plan.versions", feature_id="one", old=1, new=2)
    assert "an older AOP accepted it" in refused["message"]
    assert world.call("evidence.verify").ok


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({}, []),
        ({"risk": ["It may break"]}, ["risk 1 is new"]),
        ({"files": {"create": [], "modify": [], "delete": ["src/a.txt"]}}, ["file 1 is changed"]),
        ({"allowed_areas": ["src", "docs"]}, ["allowed area is new"]),
        ({"contracts": {"openapi": "modify", "events": "none", "db": "none"}}, ["contract is changed"]),
        ({"base_ref": "develop"}, ["base is changed"]),
        ({"gate_profile": "strict"}, ["gate profile is changed"]),
        ({"test_changes": [{"test": "tests/t.py::test_a", "reason": "It is wrong"}]}, ["test change is new"]),
        (
            {"verification_overrides": {"modes": {"fast": {"steps": [{"name": "lint", "cmd": ["true"]}]}}}},
            ["gate step is new"],
        ),
        (
            {"acceptance_criteria": ["Now first, and new", "The file says so"]},
            ["criterion 1 is new"],
        ),
        ({"acceptance_criteria": ["Entirely other words"]}, ["criterion 1 is gone", "criterion 1 is new"]),
    ],
)
def test_a_change_of_any_clause_is_told(changes: dict[str, Any], sentences: list[str]) -> None:
    old, new = (msgspec.convert(plan_for("one", **each), Plan) for each in ({}, changes))
    assert [each.sentence for each in plan_changes(old, new)] == sentences
