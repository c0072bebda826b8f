"""Conflicts with a base branch that moved: who does what next, as a pure function."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.config.gates import Mode
from aop.kernel.record.documents.features import Status
from aop.supervisor.policy.conflicts import RESOLVE
from aop.supervisor.policy.instructions import MOVED
from aop.supervisor.policy.state import (
    AskPerson,
    AskWorker,
    CallTool,
    Event,
    FeatureRun,
    Finish,
    PersonAnswered,
    RunGates,
    WayCleared,
)
from aop.supervisor.policy.step import step
from aop.supervisor.workers import PatchProposal, ToolResult
from tests.supervisor.test_policy import BUILDING, NEW, PATCH, PLAN, answered, refused, said, story

REPORT = {"paths": ["src/a.txt"], "conflicts": [], "own_diff": "mine", "base_diff": "theirs", "merged_features": []}
PLACED: dict[str, Any] = {"status": "building", "base_commit": "b" * 40, "outcome": "conflict", "conflict": REPORT}
CONFLICT = answered("repo.follow_base", **PLACED)
MOVED_CLEANLY = answered("repo.follow_base", status="qa", base_commit="b" * 40, outcome="moved", conflict=None)
IN_QA = msgspec.structs.replace(NEW, status=Status.QA, role=Role.QA)


def after(run: FeatureRun, *events: Event) -> tuple[FeatureRun, Any]:
    action: Any = None
    for event in events:
        run, action = step(run, event)
    return run, action


@pytest.mark.parametrize("run", [BUILDING, IN_QA], ids=["building", "qa"])
def test_a_conflict_goes_to_the_builder_with_both_sides_and_fresh_turns(run: FeatureRun) -> None:
    run, action = after(msgspec.structs.replace(run, turns=2, pending=PATCH), CONFLICT)
    placed = ToolResult(tool="repo.follow_base", ok=True, data=PLACED)
    assert action == AskWorker(role=Role.BUILDER, instructions=RESOLVE, results=(placed,))
    assert (run.status, run.turns, run.pending) == (Status.BUILDING, 0, None)


def test_a_patch_that_passes_its_gates_ends_the_conflict() -> None:
    events = (CONFLICT, said(PATCH), answered("repo.apply_patch"), answered("gates.run", Mode.FAST, status="qa"))
    run, action = after(BUILDING, *events)
    assert (run.conflict, action) == (None, RunGates(role=Role.QA, mode=Mode.FULL))


def test_a_refused_patch_is_told_beside_the_conflict() -> None:
    run, action = after(BUILDING, CONFLICT, said(PATCH), refused("repo.apply_patch", "patch_does_not_apply"))
    assert [each.tool for each in action.results] == ["repo.follow_base", "repo.apply_patch", "attempts"]
    assert run.turns == 1


TWO_TURNS = (
    CONFLICT,
    *(said(PATCH), refused("repo.apply_patch", "patch_does_not_apply")),
    *(said(PatchProposal(unified_diff="another")), refused("repo.apply_patch", "patch_does_not_apply")),
)


def test_after_two_turns_a_person_is_asked_what_to_do() -> None:
    _, action = after(BUILDING, *TWO_TURNS)
    assert action == AskPerson(
        question=(
            "The builder of `one` did not resolve the conflict with the base branch in `src/a.txt` in 2 turns. The last"
            " refusal: No. Answer with a hint for another try, with `anew` to plan and build it again on the base"
            " branch as it is now, or with `stop` to block it."
        ),
        detail={"conflict": REPORT},
        gate="escalation",
    )


def test_a_hint_gives_the_builder_two_more_turns() -> None:
    hint = PersonAnswered(question="?", answer="Keep both lines.")
    run, action = after(BUILDING, *TWO_TURNS, hint)
    assert [each.tool for each in action.results] == ["repo.follow_base", "repo.apply_patch", "person"]
    assert (run.turns, run.conflict_asked, action.instructions) == (0, False, RESOLVE)
    assert isinstance(after(run, *TWO_TURNS[1:])[1], AskPerson)


def test_anew_sets_the_work_aside_and_plans_again() -> None:
    run, action = after(BUILDING, *TWO_TURNS, PersonAnswered(question="?", answer="anew"))
    assert action == CallTool(role=Role.SYSTEM, tool="feature.begin_anew", arguments={"discard": True})
    assert story(run, answered("feature.begin_anew", status="planning")) == ["ask the planner"]


def test_stop_blocks_the_feature() -> None:
    _, action = after(BUILDING, *TWO_TURNS, PersonAnswered(question="?", answer="stop"))
    assert isinstance(action, Finish)
    assert (action.status, (action.error or {})["code"]) == (Status.BLOCKED, "merge_conflict")


def test_a_feature_that_was_moved_cleanly_proves_both_modes_again() -> None:
    passed = answered("gates.run", Mode.FAST, status="qa")
    assert story(IN_QA, MOVED_CLEANLY, passed) == ["qa: gates fast", "qa: gates full"]


@pytest.mark.parametrize(
    ("moved", "told"), [(False, ["planner: plan.submit"]), (True, ["ask the planner"])], ids=["same base", "new base"]
)
def test_a_plan_that_waited_is_submitted_again_unless_the_base_moved(*, moved: bool, told: list[str]) -> None:
    waiting = msgspec.structs.replace(NEW, pending=PLAN)
    assert story(waiting, WayCleared(status=Status.PLANNING, moved=moved)) == told


def test_a_planner_is_told_that_the_base_moved() -> None:
    _, action = after(msgspec.structs.replace(NEW, pending=PLAN), WayCleared(status=Status.PLANNING, moved=True))
    assert action == AskWorker(role=Role.PLANNER, instructions=MOVED, results=())
