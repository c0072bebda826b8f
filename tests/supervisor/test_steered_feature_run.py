"""Features that people steer while they are on their way: again, one more, and a rest."""

from __future__ import annotations

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.runs import WorkRequest
from aop.supervisor.workers import PatchProposal, PlanSubmission
from aop.testing.memory_engine import Memory
from tests.supervisor.worlds import ONE, Watched, office
from tests.world import PATCH, World, files, plan_for

TWO = FeatureId("two")
OTHER = plan_for("two", files=files(modify=("src/b.txt",)))
OTHER_PATCH = PATCH.replace("a.txt", "b.txt").replace("1,3", "1,2").replace("one", "alpha").replace("two", "beta")
READY = {"status": "ready_to_merge", "error": None}


def colliding() -> Watched:
    same = plan_for("two")
    turns = [PlanSubmission(plan=same), PlanSubmission(plan={**same, "summary": "Change it, again"})]
    return Watched(
        *((Role.PLANNER, turn) for turn in turns),
        (Role.PLANNER, PlanSubmission(plan=OTHER)),
        (Role.BUILDER, PatchProposal(unified_diff=OTHER_PATCH.replace(" three\n", ""))),
    )


def waiting_world(world: World, worker: Watched, memory: Memory) -> None:
    """Have the feature `two` wait for `one`, and its supervisor gone."""
    world.ready("one")
    with office(world, {TWO: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([TWO])
        assert at_work.settle()[TWO].does == "waits"


def wishes(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [wish.feature_id for wish in view.all(WorkRequest)]


def test_a_feature_that_waits_for_another_begins_again_with_a_fresh_plan_when_a_person_says_so(world: World) -> None:
    worker, memory = colliding(), Memory()
    waiting_world(world, worker, memory)
    assert world.ok("feature.retry", feature_id="two")["status"] == "planning"
    with office(world, {TWO: worker}, memory=memory) as at_work:
        at_work.supervisor.submit(at_work.supervisor.unfinished_features())
        assert at_work.settle()[TWO].outcome == READY
    assert (len(worker.given), wishes(world)) == (4, [])


@pytest.mark.req("AOP-231")
def test_a_wish_is_fulfilled_once_although_supervisors_die_at_each_step_of_it(world: World) -> None:
    worker, memory = colliding(), Memory()
    waiting_world(world, worker, memory)
    world.ok("feature.retry", feature_id="two")
    with office(world, {TWO: worker}, memory=memory) as dies_early:
        dies_early.supervisor.submit(dies_early.supervisor.unfinished_features())
        dies_early.supervisor.take_requests()
    with office(world, {TWO: worker}, memory=memory) as at_work:
        at_work.supervisor.submit(at_work.supervisor.unfinished_features())
        assert at_work.settle()[TWO].outcome == READY
    with world.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal(feature_id=TWO)]
    assert [kind for kind in kinds if kind in ("plan_accepted", "patch_applied")] == ["plan_accepted", "patch_applied"]
    assert wishes(world) == []


def test_a_feature_that_is_paused_holds_no_place_and_does_what_was_held_back_when_it_goes_on(world: World) -> None:
    plan, patch = PlanSubmission(plan=plan_for("one")), PatchProposal(unified_diff=PATCH)
    worker = Watched((Role.PLANNER, plan), (Role.BUILDER, patch))
    world.init("one")
    world.ok("run.pause", feature_id="one")
    with office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        assert (at_work.settle()[ONE].does, worker.given) == ("rests", [])
        assert world.ok("run.resume") == {"resumed": ["one"], "still_paused": []}
        assert at_work.settle()[ONE].outcome == READY
    assert [given.role for given in worker.given] == [Role.PLANNER, Role.BUILDER]
