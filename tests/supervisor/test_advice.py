"""A model's advice about plans that collide: one of three words, followed where the policy asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.machine.clock import SystemClock, new_id
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Prices
from aop.core.errors import ModelNotConfigured, Refusal
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.kernel.record.documents.usage import FeatureUsage, Usage
from aop.kernel.record.spending import spent_on, total_of
from aop.supervisor.advice import ModelAdviser
from aop.supervisor.workers import PatchProposal, PlanSubmission
from aop.testing.scripted_model import ScriptedModel, Step, answers, says
from tests.kernel.tools.worlds import configured, patch_of
from tests.supervisor.worlds import Watched, office
from tests.world import World, files, plan_for

TWO = FeatureId("two")
COLLIDING = PlanSubmission(plan=plan_for("two", files=files(create=("src/new.txt",))))
APART = PlanSubmission(plan=plan_for("two", files=files(create=("src/other.txt",))))


def adviser(*steps: Step) -> tuple[ModelAdviser, ScriptedModel]:
    model = ScriptedModel(steps)
    return ModelAdviser(lambda: ModelBrain(model, Prices({}), SystemClock(), Redactor(), CallLimits()), new_id), model


def brought(root: Path, *steps: Step, strategy: str = "model") -> tuple[Any, list[str], ScriptedModel, World]:
    """Bring a feature on its way whose plan collides with one that was accepted."""
    world = configured(root, policy={"supervisor": {"collision_strategy": strategy}})
    world.plan("one", files=files(create=("src/new.txt",)))
    worker = Watched(
        (Role.PLANNER, COLLIDING),
        (Role.PLANNER, APART),
        (Role.BUILDER, PatchProposal(unified_diff=patch_of("src/other.txt", "x"))),
    )
    chosen, model = adviser(*steps)
    with office(world, {TWO: worker}, adviser=chosen) as at_work:
        at_work.supervisor.submit([TWO])
        entry = at_work.settle()[TWO]
        told = list(at_work.told)
    return entry, told, model, world


@pytest.mark.req("AOP-264")
@pytest.mark.parametrize(("choice", "does"), [("revise", "ended"), ("wait", "waits"), ("prerequisite", "asks")])
def test_a_model_that_the_policy_asks_chooses_what_becomes_of_a_plan_that_collides(
    tmp_path: Path, choice: str, does: str
) -> None:
    entry, told, model, world = brought(tmp_path / "repo", answers({"choice": choice, "reason": "So it is."}))
    assert entry.does == does
    assert f"two: orchestrator: advised to {choice}: So it is." in told
    [asked] = model.asked
    assert asked.tools == ()
    world.close()


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ((answers({"choice": "wait"}),), [1, 100, 20]),
        ((says("Merge it."), says("Merge it.")), [1, 200, 40]),
    ],
    ids=["advice", "no advice"],
)
def test_what_advice_costs_counts_for_the_feature_and_its_run(
    tmp_path: Path, steps: tuple[Step, ...], turns: list[int]
) -> None:
    *_rest, world = brought(tmp_path / "repo", *steps)
    with world.app.record.read() as view:
        usage = view.get(FeatureUsage, TWO)
        taken = [entry.event.payload for entry in view.journal(kinds=("turn_taken",))]
    assert usage is not None
    spent = usage.roles["orchestrator"]
    assert [spent.turns, spent.input_tokens.known, spent.output_tokens.known] == turns
    [run] = usage.runs
    assert {each["run"] for each in taken} == {run}
    assert total_of(usage.runs.values()) == spent_on(usage)
    world.close()


def test_beyond_a_cap_nobody_is_asked_for_advice(tmp_path: Path) -> None:
    first, model = adviser(answers({"choice": "wait"}))
    world = configured(
        tmp_path / "repo",
        policy={"supervisor": {"collision_strategy": "model"}, "cost": {"max_tokens_per_feature": 1}},
    )
    world.plan("one", files=files(create=("src/new.txt",)))
    costly = msgspec.structs.replace(COLLIDING, usage=Usage(input_tokens=1, output_tokens=1))
    with office(world, {TWO: Watched((Role.PLANNER, costly))}, adviser=first) as at_work:
        at_work.supervisor.submit([TWO])
        assert at_work.settle()[TWO].does == "asks"
    assert model.asked == []
    world.close()


@pytest.mark.parametrize(
    "steps",
    [
        (answers({"choice": "merge"}), answers({"choice": "merge"})),
        (says("Merge it."), says("Merge it.")),
        (ModelNotConfigured("No model is named."),),
    ],
    ids=["another word", "no answer", "nobody to ask"],
)
def test_without_usable_advice_the_rules_decide(tmp_path: Path, steps: tuple[Step | Refusal, ...]) -> None:
    entry, told, _model, world = brought(tmp_path / "repo", *steps)
    assert entry.outcome == {"status": "ready_to_merge", "error": None}
    assert "two: orchestrator: no advice; the collision rules decide" in told
    world.close()


def test_a_model_is_not_asked_unless_the_policy_says_so(tmp_path: Path) -> None:
    entry, _told, model, world = brought(tmp_path / "repo", strategy="wait")
    assert (entry.does, model.asked) == ("waits", [])
    world.close()
