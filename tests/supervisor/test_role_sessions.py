"""Role sessions: what state.md says of the roles and sessions of a feature, while they work and afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.front_matter import split_front_matter
from aop.core.text.yaml import parse_yaml
from aop.supervisor.feature_run import RunLimits
from aop.supervisor.killed_turns import count_killed_turns
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerInput, WorkerOutput, WorkerRequest
from aop.testing.memory_engine import Memory
from tests.supervisor.worlds import ONE, Watched, brought, office
from tests.world import FILES, PATCH, World, make_repository, plan_for

PLAN = (Role.PLANNER, PlanSubmission(plan=plan_for("one")))
GOOD = (Role.BUILDER, PatchProposal(unified_diff=PATCH))
BAD = (Role.BUILDER, PatchProposal(unified_diff=PATCH.replace("two", "no such line")))
ASKS = (Role.BUILDER, WorkerRequest(request="question", detail={"question": "Which colour?"}))


def state_of(world: World, feature: str = "one") -> Any:
    """Return the front matter of the file state.md."""
    return parse_yaml(split_front_matter((world.root / f"agentic/features/{feature}/state.md").read_bytes())[0]).value


def roles_of(world: World) -> tuple[str, str, str]:
    statuses = state_of(world)["role_status"]
    return statuses["planner"], statuses["builder"], statuses["qa"]


class Looking(Watched):
    """Workers that look at state.md during their turns."""

    def __init__(self, world: World, *turns: tuple[Role, WorkerOutput]) -> None:
        super().__init__(*turns)
        self._world = world
        self.seen: list[Any] = []

    def turn(self, given: WorkerInput) -> WorkerOutput:
        self.seen.append(state_of(self._world, given.feature_id))
        return super().turn(given)


@pytest.mark.req("AOP-090", "AOP-091", "AOP-226")
def test_each_role_works_in_its_own_session_which_state_md_names(tmp_path: Path) -> None:
    policy = {"agentic/orchestrator/policy.yaml": "version: 1\nsupervisor: {qa: always}\n"}
    world = World(make_repository(tmp_path / "repo", {**FILES, **policy}))
    worker = Looking(world, PLAN, GOOD, (Role.QA, Note(note="Read it.")))
    brought(world, worker)
    after = state_of(world)
    world.close()
    assert [tuple(seen["role_status"].values()) for seen in worker.seen] == [
        ("running", "ready", "ready"),
        ("done", "running", "ready"),
        ("done", "done", "running"),
    ]
    assert tuple(after["role_status"].values()) == ("done", "done", "done")
    named = [
        seen["cluster"][f"{role}_session_id"] for seen, role in zip(worker.seen, after["role_status"], strict=True)
    ]
    assert [after["cluster"][f"{role}_session_id"] for role in after["role_status"]] == named
    assert len({*named, after["cluster"]["orchestrator_session_id"], "unknown"}) == 5


@pytest.mark.req("AOP-090")
def test_the_next_turn_of_a_role_is_a_new_session_and_a_role_without_a_turn_has_none(world: World) -> None:
    worker = Looking(world, PLAN, BAD, GOOD)
    brought(world, worker)
    first, second = (seen["cluster"]["builder_session_id"] for seen in worker.seen[1:])
    assert (first == second, state_of(world)["cluster"]["builder_session_id"]) == (False, second)
    assert state_of(world)["cluster"]["qa_session_id"] == "unknown"


@pytest.mark.req("AOP-090", "AOP-231")
@pytest.mark.parametrize("sessions", ["fresh", "resume"])
def test_the_session_that_an_agent_goes_on_with_stays_in_state_md(tmp_path: Path, sessions: str) -> None:
    policy = {"agentic/orchestrator/policy.yaml": f"version: 1\nsupervisor: {{sessions: {sessions}}}\n"}
    world = World(make_repository(tmp_path / "repo", {**FILES, **policy}))
    asks = WorkerRequest(request="context", session="0b7c9a52-session")
    worker = Looking(world, PLAN, (Role.BUILDER, asks), GOOD)
    brought(world, worker)
    world.close()
    second = worker.seen[2]["cluster"]["builder_session_id"]
    assert (second == asks.session) is (sessions == "resume")


@pytest.mark.req("AOP-091")
def test_a_role_is_blocked_until_a_person_has_answered(world: World) -> None:
    with office(world, {ONE: Watched(PLAN, ASKS, ASKS, GOOD)}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        assert roles_of(world) == ("done", "blocked", "ready")
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="Blue.")
        assert roles_of(world) == ("done", "ready", "ready")
        at_work.settle()
        assert roles_of(world) == ("done", "blocked", "ready")


@pytest.mark.req("AOP-091")
def test_the_roles_follow_the_status_that_a_person_or_the_kernel_sets(world: World) -> None:
    brought(world, Watched(PLAN, GOOD))
    seen = []
    for status in ("blocked", "qa", "blocked", "building", "failed"):
        version = state_of(world)["version"]
        patch = {"status": status, "status_reason": "So."}
        world.ok("feature.state_patch", feature_id="one", expected_version=version, patch=patch)
        seen.append(roles_of(world))
    assert seen == [
        ("done", "done", "blocked"),
        ("done", "done", "ready"),
        ("done", "done", "blocked"),
        ("done", "ready", "ready"),
        ("done", "blocked", "ready"),
    ]


@pytest.mark.req("AOP-090", "AOP-225")
def test_the_features_of_a_run_have_one_orchestrator_and_the_next_run_has_another(world: World) -> None:
    two, memory, seen = FeatureId("two"), Memory(), []
    limits = RunLimits(active_features=2, agent_turns=2, gate_runs=2, turns_a_phase=8)
    asks = (Role.PLANNER, ASKS[1])
    for turns in ((asks,), (asks,)):
        workers = {ONE: Watched(*turns), two: Watched(*turns)}
        with office(world, workers, memory=memory) as at_work:
            at_work.supervisor.record_start("person:ada", [ONE, two], {}, limits)
            at_work.supervisor.submit([ONE, two])
            at_work.settle()
            named = {state_of(world, name)["cluster"]["orchestrator_session_id"] for name in (ONE, two)}
            assert named == {at_work.supervisor.run_name}
            seen.append(named)
        for question in world.ok("inbox.list")["questions"]:
            world.ok(
                "inbox.answer",
                feature_id=question["feature_id"],
                question_id=question["question_id"],
                answer="Blue.",
            )
    assert seen[0] != seen[1]


@pytest.mark.req("AOP-091", "AOP-231")
def test_a_role_whose_turn_was_killed_does_not_run_after_the_restart(world: World) -> None:
    world.plan()
    begun = {"feature_id": "one", "worker": "builder", "run": "run-1", "provider": "custom"}
    world.ok("usage.begin", role=Role.SYSTEM, **begun)
    assert roles_of(world) == ("done", "running", "ready")
    count_killed_turns(world.app.gateway, lambda _turn: None)
    assert roles_of(world) == ("done", "ready", "ready")
