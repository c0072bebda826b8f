"""The orchestrator's rules: revise, wait, or ask a person; what both make; and the order of what is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config.policy import CollisionStrategy
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.questions import Prerequisite
from aop.supervisor.policy.collisions import (
    REVISE,
    AskAbout,
    NextStep,
    Revise,
    Ruling,
    WaitFor,
    arbitrate,
    next_steps,
    shared_prerequisites,
)
from aop.supervisor.workers import PlanSubmission
from tests.supervisor.worlds import Watched, office
from tests.world import FILES, World, files, make_repository, plan_for

TWO = FeatureId("two")
PLAN = plan_for("two", files=files(create=("src/Same.txt",), modify=("src/a.txt",)))


def error(*held: str) -> dict[str, Any]:
    collisions = [{"kind": "file", "identifier": path.lower(), "feature_id": "one", "held_as": path} for path in held]
    details = {"conflicting_feature_ids": ["one"], "collisions": collisions}
    return {"code": "collision_detected", "message": "They collide.", "details": details}


@pytest.mark.req("AOP-053", "AOP-264")
@pytest.mark.parametrize(
    ("strategy", "held", "revised", "ruling"),
    [
        ("revise", "src/a.txt", False, Revise(instructions=REVISE)),
        ("revise", "src/a.txt", True, WaitFor(reason="They collide.", features=("one",))),
        ("wait", "src/a.txt", False, WaitFor(reason="They collide.", features=("one",))),
        (
            "wait",
            "src/same.txt",
            False,
            WaitFor(reason="They collide. Both create `src/same.txt`: `one` goes first.", features=("one",)),
        ),
        (
            "ask",
            "src/a.txt",
            False,
            AskAbout(
                question="They collide. Should it plan without the files of `one`, and how, or wait?",
                features=("one",),
            ),
        ),
        ("ask", "src/a.txt", True, WaitFor(reason="They collide.", features=("one",))),
    ],
)
def test_the_policy_says_what_becomes_of_a_plan_that_collides(
    strategy: str, held: str, *, revised: bool, ruling: Ruling
) -> None:
    assert arbitrate(CollisionStrategy(strategy), error(held), PLAN, revised=revised) == ruling


@pytest.mark.req("AOP-264")
def test_what_both_features_would_make_is_a_prerequisite_that_the_first_one_makes() -> None:
    assert shared_prerequisites(error("src/same.txt", "src/a.txt")["details"]["collisions"], PLAN) == ("src/same.txt",)
    ruling = arbitrate(CollisionStrategy.REVISE, error("src/same.txt"), PLAN, revised=False)
    assert isinstance(ruling, Revise)
    assert ruling.instructions.startswith("`one` also creates `src/same.txt`, a prerequisite of both.")
    asked = arbitrate(CollisionStrategy.ASK, error("src/same.txt"), PLAN, revised=False)
    assert isinstance(asked, AskAbout)
    assert asked.prerequisite == Prerequisite(
        feature_id="shared-same-bf03e9aa",
        files=("src/same.txt",),
        needed_by=(FeatureId("one"), TWO),
        summary="Change the first file",
    )
    assert "`yes` makes that a separate feature, `shared-same-bf03e9aa`" in asked.question


@pytest.mark.req("AOP-053")
def test_a_feature_that_others_wait_for_is_looked_at_first() -> None:
    names = [FeatureId(name) for name in ("a", "b", "c")]
    steps = next_steps(names, {FeatureId("d"): ["c"], FeatureId("e"): ["c", "b"], FeatureId("f"): ["z"]})
    assert [(step.feature_id, step.unblocks) for step in steps] == [("c", ("d", "e")), ("b", ("e",)), ("a", ())]
    assert steps[2] == NextStep(feature_id=FeatureId("a"), commands=("aop review a", "aop merge a"), unblocks=())


def managed(root: Path, strategy: str) -> World:
    policy = f"version: 1\nsupervisor: {{collision_strategy: {strategy}}}\n"
    world = World(make_repository(root, {**FILES, "agentic/orchestrator/policy.yaml": policy}))
    world.ready("one")
    return world


@pytest.mark.req("AOP-264")
def test_with_the_strategy_wait_no_second_plan_is_asked_for(tmp_path: Path) -> None:
    world = managed(tmp_path / "repo", "wait")
    worker = Watched((Role.PLANNER, PlanSubmission(plan=plan_for("two"))))
    with office(world, {TWO: worker}) as at_work:
        at_work.supervisor.submit([TWO])
        entry = at_work.settle()[TWO]
    world.close()
    assert (entry.does, entry.others, len(worker.given)) == ("waits", ("one",), 1)


@pytest.mark.req("AOP-264")
def test_with_the_strategy_ask_a_person_decides_and_the_planner_hears_it(tmp_path: Path) -> None:
    world = managed(tmp_path / "repo", "ask")
    around = plan_for("two", files=files(modify=("src/b.txt",)))
    turns = [(Role.PLANNER, PlanSubmission(plan=plan)) for plan in (plan_for("two"), around)]
    worker = Watched(*turns)
    with office(world, {TWO: worker}) as at_work:
        at_work.supervisor.submit([TWO])
        entry = at_work.settle()[TWO]
        assert entry.does == "asks"
        (question,) = world.ok("inbox.list")["questions"]
        assert question["detail"] == {"conflicting_feature_ids": ["one"]}
        world.ok("inbox.answer", feature_id="two", question_id=entry.topic, answer="Take the other file.")
        at_work.settle()
    heard = [result.data for result in worker.given[1].last_tool_results if result.tool == "person"]
    accepted = world.ok("plan.get", feature_id="two")["plan"]["files"]["modify"]
    world.close()
    assert ([each["answer"] for each in heard], accepted) == (["Take the other file."], ["src/b.txt"])


@pytest.mark.req("AOP-266")
def test_no_rule_of_the_orchestrator_reaches_what_only_a_person_may_do(world: World) -> None:
    world.ready("one")
    orchestrator = Principal(role=Role.ORCHESTRATOR, actor="orchestrator:one")
    for tool in ("feature.approve", "feature.ready_to_merge", "feature.delete"):
        answer = world.app.gateway.call(orchestrator, tool, {"feature_id": "one"})
        assert answer.error is not None
        assert answer.error["code"] == "forbidden_tool_for_role"
