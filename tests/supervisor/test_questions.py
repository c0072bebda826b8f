"""Features that wait for a person: how long, and what happens when nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aop.core.errors import Json
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.supervisor.workers import PatchProposal, PlanSubmission, WorkerOutput, WorkerRequest
from aop.testing.memory_engine import Memory
from tests.clocks import clocked
from tests.kernel.tools.worlds import configured, patch_of
from tests.supervisor.worlds import ONE, Watched, office
from tests.world import PATCH, files, plan_for

HOURS = 3600.0
GUARDED = "src/secret.txt"
GUARDED_PLAN = plan_for("one", files=files(create=(GUARDED,)))


def asking(**detail: str) -> Watched:
    return Watched(
        (Role.PLANNER, WorkerRequest(request="question", detail={"question": "Which colour?", **detail})),
        (Role.PLANNER, PlanSubmission(plan=plan_for("one"))),
        (Role.BUILDER, PatchProposal(unified_diff=PATCH)),
    )


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same process", "another process"])
def test_a_question_that_nobody_answers_goes_on_with_the_default_that_it_states(
    tmp_path: Path, *, is_restarted: bool
) -> None:
    world = configured(tmp_path / "repo", policy={"inbox": {"question_timeout_hours": 8}})
    clock, memory, worker = clocked(world), Memory(), asking(default="Blue")
    with office(world, {ONE: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].does == "asks"
        clock.go_on(8 * HOURS)
        outcome = {} if is_restarted else at_work.settle()[ONE].outcome
    if is_restarted:
        with office(world, {ONE: worker}, memory=memory) as at_work:
            at_work.supervisor.submit([ONE])
            outcome = at_work.settle()[ONE].outcome
    assert outcome == {"status": "ready_to_merge", "error": None}
    assert worker.given[1].last_tool_results[0].data == {"question": "Which colour?", "answer": "Blue"}
    [question] = world.ok("inbox.list", answered=True)["questions"]
    assert (question["answer"], question["answered_by"]) == ("Blue", "time limit")
    world.close()


def test_a_question_without_a_default_leaves_its_feature_blocked_when_the_time_is_up(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"inbox": {"question_timeout_hours": 8}})
    clock = clocked(world)
    with office(world, {ONE: asking()}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        clock.go_on(8 * HOURS)
        outcome = at_work.settle()[ONE].outcome
    assert (outcome["status"], outcome["error"]["code"]) == ("blocked", "nobody_answered")
    state = world.ok("feature.state_get", feature_id="one")["front_matter"]
    assert (state["status"], state["status_reason"]) == ("blocked", "No answer in time: Which colour?")
    world.close()


class Meddled(Gateway):
    """A gateway behind which somebody else changes a feature right after the supervisor has looked at it."""

    is_over = False

    def call(self, principal: Principal, tool_name: str, arguments: Json, **how: Any) -> Envelope:
        answer = super().call(principal, tool_name, arguments, **how)
        if tool_name == "feature.state_get" and principal.actor == "supervisor" and not self.is_over:
            self.is_over = True
            patch = {"status_reason": "Somebody was here."}
            who = Principal(role=Role.ORCHESTRATOR, actor="somebody")
            given = {"feature_id": ONE, "expected_version": answer.data["version"], "patch": patch}
            assert super().call(who, "feature.state_patch", given).ok
        return answer


def test_a_feature_is_blocked_at_its_end_even_if_somebody_changes_it_at_that_moment(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"inbox": {"question_timeout_hours": 8}})
    clock = clocked(world)
    world.app = replace(world.app, gateway=Meddled(world.app.gateway.kernel, world.app.gateway.tools))
    with office(world, {ONE: asking()}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        clock.go_on(8 * HOURS)
        assert at_work.settle()[ONE].outcome["status"] == "blocked"
    state = world.ok("feature.state_get", feature_id="one")["front_matter"]
    assert (state["status"], state["status_reason"]) == ("blocked", "No answer in time: Which colour?")
    world.close()


def test_a_question_that_the_inbox_refuses_goes_back_to_the_worker_who_asked_it(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    worker = asking(default="x" * 16_001)
    with office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].outcome == {"status": "ready_to_merge", "error": None}
    refused = worker.given[1].last_tool_results[0]
    assert (refused.tool, (refused.error or {})["code"]) == ("inbox.ask", "invalid_arguments")
    world.close()


def test_people_are_told_of_a_question_reminded_after_growing_waits_and_told_of_the_end(tmp_path: Path) -> None:
    reminders = {"remind_after_minutes": 30, "remind_multiplier": 2, "remind_max_minutes": 1440}
    world = configured(tmp_path / "repo", policy={"inbox": reminders})
    clock, memory, worker = clocked(world), Memory(), asking()
    with office(world, {ONE: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([ONE])
        for minutes in (0, 29, 1, 30, 30, 600):
            clock.go_on(minutes * 60)
            at_work.settle()
        assert [notice.event_id for notice in at_work.notices] == [
            "question:q1",
            "question:q1:reminder:1",
            "question:q1:reminder:2",
            "question:q1:reminder:4",
        ]
        assert [line for line in at_work.told if "still" in line] == [
            "one: still asks: Which colour? (aop answer q1 TEXT)"
        ] * 3
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="Blue")
        at_work.settle()
        last = at_work.notices[-1]
    assert (last.kind, last.title, last.text) == (
        "ready",
        "one is ready to merge",
        "aop review one, and then aop merge one",
    )
    world.close()


def wanting(path: str, *after: tuple[Role, WorkerOutput]) -> Watched:
    return Watched((Role.PLANNER, WorkerRequest(request="path", detail={"path": path, "reason": "It must."})), *after)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same process", "another process"])
def test_a_worker_that_asks_for_a_guarded_path_waits_for_a_yes_and_then_changes_it(
    tmp_path: Path, *, is_restarted: bool
) -> None:
    world = configured(tmp_path / "repo", policy={"protected_areas": [GUARDED]})
    worker = wanting(
        GUARDED,
        (Role.PLANNER, PlanSubmission(plan=GUARDED_PLAN)),
        (Role.BUILDER, PatchProposal(unified_diff=patch_of(GUARDED, "one"))),
    )
    memory = Memory()
    with office(world, {ONE: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([ONE])
        entry = at_work.settle()[ONE]
        assert (entry.does, entry.topic) == ("asks", "q1")
        assert at_work.told[-1].endswith("Its reason: It must. (aop answer q1 yes|no)")
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="yes")
        outcome = {} if is_restarted else at_work.settle()[ONE].outcome
    if is_restarted:
        with office(world, {ONE: worker}, memory=memory) as at_work:
            at_work.supervisor.submit([ONE])
            outcome = at_work.settle()[ONE].outcome
    assert outcome == {"status": "ready_to_merge", "error": None}
    assert worker.given[1].last_tool_results[-1].data["answer"] == "yes"
    assert len(world.ok("inbox.list", answered=True)["questions"]) == 1
    world.close()


def test_a_no_is_told_to_the_worker_and_so_is_what_nobody_can_open(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"protected_areas": [GUARDED]})
    worker = wanting(
        "agentic/x",
        (Role.PLANNER, WorkerRequest(request="path", detail={"path": GUARDED, "reason": "It must."})),
        (Role.PLANNER, PlanSubmission(plan=plan_for("one"))),
        (Role.BUILDER, PatchProposal(unified_diff=PATCH)),
    )
    with office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="no")
        outcome = at_work.settle()[ONE].outcome
    assert outcome == {"status": "ready_to_merge", "error": None}
    refused = worker.given[1].last_tool_results[0]
    assert (refused.tool, refused.error and refused.error["code"]) == ("inbox.ask_path", "protected_path")
    assert worker.given[2].last_tool_results[-1].data["answer"] == "no"
    world.close()
