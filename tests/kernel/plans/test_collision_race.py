"""Colliding plans that six processes submit at the same moment: one is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.plans import AcceptedPlan
from tests.racing import race
from tests.world import World, files, plan_for

FEATURES = [f"feature-{number}" for number in range(6)]

CALL = """
from aop.wiring.build import Settings, build
root, tool, arguments = sys.argv[1:]
app = build(Path(root), Settings.from_env(os.environ))
ready()
print(json.dumps(app.gateway.call(app.person, tool, json.loads(arguments)).as_json()))
"""

SAME_PLACE = [
    files(create=("src/new/",)),
    files(create=("src/new/one.txt",)),
    files(create=("./src//new/one.txt",)),
    files(create=("src/NEW/One.txt",)),
    files(create=("src/new/*.txt",)),
    files(create=("src/new/?ne.txt",)),
]
"""One place, as six planners may write it."""


def compete(world: World, tool: str, plans: list[dict[str, Any]], **arguments: Any) -> str:
    """Let each feature send its plan at once; check that one gets in and the others are told of it; return which."""
    calls = [
        (world.root, tool, json.dumps({"feature_id": feature, "plan_json": plan, **arguments}))
        for feature, plan in zip(FEATURES, plans, strict=True)
    ]
    answers = dict(zip(FEATURES, race(CALL, calls), strict=True))
    won = [feature for feature, answer in answers.items() if answer["ok"]]
    assert len(won) == 1, answers
    lost = [answer["error"] for answer in answers.values() if not answer["ok"]]
    assert [error["code"] for error in lost] == ["collision_detected"] * 5
    assert [error["details"]["conflicting_feature_ids"] for error in lost] == [won] * 5
    return won[0]


def journal_of(world: World) -> list[tuple[str, str | None]]:
    """Return the kinds and features of all events, after following the chain from its beginning."""
    with world.app.record.read() as view:
        entries = list(view.journal())
    previous = FIRST_HASH
    for number, entry in enumerate(entries, start=1):
        assert (entry.seq, entry.previous_hash) == (number, previous)
        previous = chained_hash(number, entry.event, previous)
        assert entry.hash == previous
    return [(entry.event.kind, entry.event.feature_id) for entry in entries]


def plan_versions(world: World) -> dict[str, int]:
    with world.app.record.read() as view:
        return {plan.plan.feature_id: plan.version for plan in view.all(AcceptedPlan)}


@pytest.mark.req("AOP-204", "AOP-208")
def test_of_six_first_plans_for_one_place_one_is_accepted(world: World) -> None:
    for feature in FEATURES:
        world.init(feature)
    plans = [plan_for(feature, files=place) for feature, place in zip(FEATURES, SAME_PLACE, strict=True)]
    won = compete(world, "plan.submit", plans)
    assert plan_versions(world) == {won: 1}
    assert journal_of(world) == [*(("feature_initialised", each) for each in FEATURES), ("plan_accepted", won)]
    statuses = {row["feature_id"]: row["status"] for row in world.ok("report.dashboard")["features"]}
    assert statuses == {**dict.fromkeys(FEATURES, "planning"), won: "building"}


@pytest.mark.req("AOP-168", "AOP-204")
def test_of_six_revisions_that_reach_for_one_place_one_is_accepted(world: World) -> None:
    for feature in FEATURES:
        world.plan(feature, files=files(create=(f"src/{feature}.txt",)))
    plans = [
        plan_for(feature, plan_version=2, revision_of=1, files=place)
        for feature, place in zip(FEATURES, SAME_PLACE, strict=True)
    ]
    won = compete(world, "plan.update", plans, expected_plan_version=1)
    assert plan_versions(world) == {**dict.fromkeys(FEATURES, 1), won: 2}
    assert journal_of(world)[-1] == ("plan_revised", won)
    assert [kind for kind, _ in journal_of(world)].count("plan_revised") == 1
