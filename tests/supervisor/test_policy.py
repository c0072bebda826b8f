"""The supervisor's decisions, as a pure function: every event in every place a feature can be in has an answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, cast

import msgspec
import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.config.gates import Mode
from aop.kernel.config.policy import QaTurns
from aop.kernel.gates.qa_index import Mark
from aop.kernel.record.documents.features import Status
from aop.supervisor.policy.state import (
    Action,
    AskPerson,
    AskWorker,
    Attempt,
    Await,
    AwaitMerged,
    Began,
    CallTool,
    Event,
    FeatureRun,
    Finish,
    PersonAnswered,
    Rest,
    Rung,
    RunGates,
    ToolAnswered,
    WaitUntil,
    WayCleared,
    WorkerAnswered,
    WorkerFailed,
)
from aop.supervisor.policy.step import step
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, ToolResult, WorkerOutput, WorkerRequest

NEW = FeatureRun(feature_id=FeatureId("one"), turns_allowed=3)
PLAN, PATCH = PlanSubmission(plan={"plan_version": 1}), PatchProposal(unified_diff="a diff")
BUILDING = msgspec.structs.replace(NEW, status=Status.BUILDING, role=Role.BUILDER)


def answered(tool: str, mode: Mode | None = None, **data: Any) -> ToolAnswered:
    return ToolAnswered(result=ToolResult(tool=tool, ok=True, data=data), mode=mode)


def refused(tool: str, code: str, mode: Mode | None = None, **details: Any) -> ToolAnswered:
    error = {"code": code, "message": "No.", "details": details}
    return ToolAnswered(result=ToolResult(tool=tool, ok=False, error=error), mode=mode)


def said(output: WorkerOutput) -> WorkerAnswered:
    return WorkerAnswered(output=output)


def story(run: FeatureRun, *events: Event) -> list[str]:
    """Tell what is done after each event, in a word."""
    actions = []
    for event in events:
        run, action = step(run, event)
        actions.append(word(action))
    return actions


def word(action: Action) -> str:
    match action:
        case CallTool():
            return f"{action.role}: {action.tool}"
        case RunGates():
            return f"{action.role}: gates {action.mode}"
        case AskWorker():
            return f"ask the {action.role}"
        case AskPerson():
            return "ask a person"
        case Await() | AwaitMerged():
            return f"wait for {' '.join(action.features)}"
        case Rest() | WaitUntil():
            return "rest" if isinstance(action, Rest) else f"wait until {action.until}"
        case Finish():
            return f"end {action.status}"


@pytest.mark.req("AOP-248", "AOP-249", "AOP-250")
def test_the_straight_way() -> None:
    assert story(
        NEW,
        Began(),
        answered("feature.init", status="planning"),
        said(PLAN),
        answered("plan.submit", status="building", plan_version=1),
        said(PATCH),
        answered("repo.apply_patch", status=" M src/a.txt"),
        answered("gates.run", Mode.FAST, status="qa"),
        answered("gates.run", Mode.FULL, status="ready_to_merge"),
    ) == [
        "orchestrator: feature.init",
        "ask the planner",
        "planner: plan.submit",
        "ask the builder",
        "builder: repo.apply_patch",
        "builder: gates fast",
        "qa: gates full",
        "end ready_to_merge",
    ]


ALWAYS = msgspec.structs.replace(NEW, qa=QaTurns.ALWAYS)
FAILED, PASSED = (
    Mark(path="a", status="failed", hunk_refs=("1",)),
    Mark(path="a", status="passed", hunk_refs=("2", "gone")),
)
INDEX = answered("qa.test_index_get", index={"version": 4, "items": [{"path": "a", "hunks": [{"ref": "2"}]}]})
UP_TO_QA = (
    Began(),
    answered("feature.init", status="building"),
    said(PATCH),
    answered("repo.apply_patch"),
    answered("gates.run", Mode.FAST, status="qa"),
)


@pytest.mark.req("AOP-147", "AOP-232", "AOP-260")
def test_where_the_policy_wants_it_qa_takes_a_turn_before_the_full_gates_and_its_claims_wait_for_them() -> None:
    assert story(
        ALWAYS,
        *UP_TO_QA,
        said(Note(note="Tested.", qa_index=(PASSED,))),
        answered("feature.log_append"),
        answered("gates.run", Mode.FULL, status="ready_to_merge", gate_run_id="gate-7"),
        INDEX,
        answered("qa.test_index_update"),
    )[4:] == [
        "ask the qa",
        "qa: feature.log_append",
        "qa: gates full",
        "qa: qa.test_index_get",
        "qa: qa.test_index_update",
        "end ready_to_merge",
    ]


def test_a_claim_names_the_run_that_proves_it_and_no_hunk_that_is_gone() -> None:
    claims = msgspec.structs.replace(ALWAYS, status=Status.QA, role=Role.QA, claims=(PASSED,))
    proven, _ = step(claims, answered("gates.run", Mode.FULL, status="ready_to_merge", gate_run_id="gate-7"))
    _, update = step(proven, INDEX)
    assert isinstance(update, CallTool)
    assert update.arguments == {
        "expected_version": 4,
        "updates": ({"path": "a", "status": "passed", "hunk_refs": ("2",), "reason": ""},),
        "evidence_refs": ["gate-7"],
    }


def test_a_proven_feature_waits_for_no_marks_that_are_refused() -> None:
    claims = msgspec.structs.replace(ALWAYS, status=Status.QA, role=Role.QA, claims=(PASSED,))
    assert story(
        claims,
        answered("gates.run", Mode.FULL, status="ready_to_merge", gate_run_id="gate-7"),
        INDEX,
        refused("qa.test_index_update", "qa_index_version_conflict"),
    ) == ["qa: qa.test_index_get", "qa: qa.test_index_update", "end ready_to_merge"]


def test_what_qa_found_wrong_is_marked_before_its_patch_and_claims_fall_with_the_gates() -> None:
    run = msgspec.structs.replace(NEW, status=Status.QA, role=Role.QA)
    way: list[tuple[Event, str]] = [
        (refused("gates.run", "gate_failed", Mode.FULL), "ask the qa"),
        (said(msgspec.structs.replace(PATCH, qa_index=(FAILED, PASSED))), "qa: qa.test_index_get"),
        (INDEX, "qa: qa.test_index_update"),
        (answered("qa.test_index_update"), "qa: repo.apply_patch"),
        (answered("repo.apply_patch"), "qa: gates fast"),
        (answered("gates.run", Mode.FAST, status="qa"), "qa: gates full"),
    ]
    for event, expected in way:
        run, action = step(run, event)
        assert word(action) == expected
    assert run.claims == (PASSED,)
    again, action = step(run, refused("gates.run", "gate_failed", Mode.FULL))
    assert (again.claims, word(action)) == ((), "ask the qa")


def test_marks_that_are_refused_go_back_with_the_whole_answer() -> None:
    run = msgspec.structs.replace(NEW, status=Status.QA, role=Role.QA)
    assert story(
        run,
        said(msgspec.structs.replace(PATCH, qa_index=(FAILED,))),
        INDEX,
        refused("qa.test_index_update", "invalid_arguments"),
    ) == ["qa: qa.test_index_get", "qa: qa.test_index_update", "ask the qa"]


def test_only_qa_marks_hunks() -> None:
    assert story(BUILDING, said(msgspec.structs.replace(PATCH, qa_index=(FAILED,)))) == ["ask the builder"]


def test_a_note_of_qa_is_no_repair() -> None:
    run = msgspec.structs.replace(ALWAYS, status=Status.QA, role=Role.QA)
    assert story(
        run,
        refused("gates.run", "gate_failed", Mode.FULL),
        said(Note(note="Hm.")),
        answered("feature.log_append"),
    ) == ["ask the qa", "qa: feature.log_append", "ask the qa"]


def test_a_feature_that_is_built_again_is_reviewed_again() -> None:
    reviewed = msgspec.structs.replace(ALWAYS, status=Status.BUILDING, role=Role.BUILDER)
    back = refused("gates.run", "invalid_status_transition", Mode.FULL, status="building")
    run, _ = step(msgspec.structs.replace(reviewed, status=Status.QA, role=Role.QA), back)
    assert story(run, *UP_TO_QA[2:])[-1] == "ask the qa"


def test_a_patch_of_qa_is_proven_by_both_kinds_of_gates() -> None:
    in_qa = msgspec.structs.replace(NEW, status=Status.QA, role=Role.QA)
    assert story(
        in_qa,
        refused("gates.run", "gate_failed", Mode.FULL),
        said(PATCH),
        answered("repo.apply_patch"),
        answered("gates.run", Mode.FAST, status="qa"),
        answered("gates.run", Mode.FULL, status="ready_to_merge"),
    ) == ["ask the qa", "qa: repo.apply_patch", "qa: gates fast", "qa: gates full", "end ready_to_merge"]


def test_a_feature_that_was_blocked_goes_on_where_it_was_when_a_person_asks_for_it_again() -> None:
    run, action = step(NEW, answered("feature.init", status="blocked"))
    assert word(action) == "orchestrator: feature.state_get"
    run, action = step(run, answered("feature.state_get", version=7, front_matter={"blocked_from": "building"}))
    assert action == CallTool(
        role=Role.ORCHESTRATOR,
        tool="feature.state_patch",
        arguments={
            "expected_version": 7,
            "patch": {"status": "building", "status_reason": "A person asked for this feature again."},
        },
    )
    assert story(run, answered("feature.state_patch", status="building")) == ["ask the builder"]


def test_a_feature_that_the_kernel_blocked_between_two_runs_is_let_on_and_its_worker_asked_again() -> None:
    run, _ = step(BUILDING, said(PATCH))
    run, action = step(run, refused("repo.apply_patch", "invalid_status_transition", status="blocked"))
    assert word(action) == "orchestrator: feature.state_get"
    run, _ = step(run, answered("feature.state_get", version=7, front_matter={"blocked_from": "building"}))
    assert story(run, answered("feature.state_patch", status="building")) == ["ask the builder"]


def test_a_feature_that_a_person_set_back_during_a_turn_continues_where_they_put_it() -> None:
    run, _ = step(BUILDING, said(PATCH))
    told = refused("repo.apply_patch", "invalid_status_transition", status="planning")
    assert story(run, told) == ["ask the planner"]


def test_edits_of_a_person_are_proven_before_an_agent_gets_a_turn() -> None:
    _run, action = step(BUILDING, answered("feature.init", status="building", unproven=True))
    assert action == RunGates(role=Role.BUILDER, mode=Mode.FAST)


@pytest.mark.parametrize(
    ("answer", "then"), [("yes", RunGates(role=Role.BUILDER, mode=Mode.FAST)), ("no", Role.BUILDER)]
)
def test_gates_whose_set_up_needs_the_network_wait_for_a_person_and_run_again_after_a_yes(
    answer: str, then: RunGates | Role
) -> None:
    closed = refused("gates.run", "setup_needs_network", Mode.FAST, question="May it?", question_id="q1")
    waiting, asked = step(BUILDING, closed)
    assert asked == AskPerson(question="May it?", gate="authorisation", choices=("yes", "no"), question_id="q1")
    after, action = step(waiting, PersonAnswered(question="May it?", answer=answer))
    assert after.held_back is None
    assert (action.role if isinstance(action, AskWorker) else action) == then


def test_a_plan_that_names_the_one_before_replaces_it() -> None:
    revision = PlanSubmission(plan={"plan_version": 3, "revision_of": 2})
    _run, action = step(msgspec.structs.replace(BUILDING, role=Role.PLANNER), said(revision))
    assert action == CallTool(
        role=Role.PLANNER,
        tool="plan.update",
        arguments={"plan_json": {"plan_version": 3, "revision_of": 2}, "expected_plan_version": 2},
    )


def test_a_patch_that_needs_a_lock_gets_it_and_is_applied_again() -> None:
    assert story(
        BUILDING,
        said(PATCH),
        refused("repo.apply_patch", "lock_not_held", resources=["openapi"]),
        answered("locks.acquire", resource="openapi"),
        answered("repo.apply_patch"),
    ) == [
        "builder: repo.apply_patch",
        "orchestrator: locks.acquire",
        "builder: repo.apply_patch",
        "builder: gates fast",
    ]


@pytest.mark.req("AOP-240", "AOP-246")
def test_a_lock_that_another_feature_holds_is_waited_for_without_a_place() -> None:
    assert story(
        BUILDING,
        said(WorkerRequest(request="lock", detail={"resource": "openapi"})),
        refused("locks.acquire", "lock_conflict", conflicting_feature_ids=["two"]),
        WayCleared(status=Status.BUILDING),
    ) == ["orchestrator: locks.acquire", "wait for two", "ask the builder"]


def test_a_plan_that_collides_is_revised_once_and_then_waits() -> None:
    other = PlanSubmission(plan={"plan_version": 1, "summary": "Otherwise"})
    collides = refused("plan.submit", "collision_detected", conflicting_feature_ids=["two"])
    assert story(
        NEW,
        said(PLAN),
        collides,
        said(other),
        collides,
        WayCleared(status=Status.PLANNING),
        answered("plan.submit", status="building"),
    ) == [
        "planner: plan.submit",
        "ask the planner",
        "planner: plan.submit",
        "wait for two",
        "planner: plan.submit",
        "ask the builder",
    ]


def test_a_plan_that_the_kernel_keeps_is_not_sent_again_once_it_was_let_in() -> None:
    waits = refused("plan.submit", "blocked_by_collision_policy", conflicting_feature_ids=["two"])
    assert story(NEW, said(PLAN), waits, WayCleared(status=Status.BUILDING)) == [
        "planner: plan.submit",
        "wait for one",
        "ask the builder",
    ]


def test_three_proposals_that_fail_alike_are_a_circle() -> None:
    run = BUILDING
    rungs = []
    for number in range(5):
        run, _ = step(run, said(PatchProposal(unified_diff=f"diff {number}")))
        run, _ = step(msgspec.structs.replace(run, turns=0), refused("repo.apply_patch", "patch_does_not_apply"))
        rungs.append(run.rung)
    assert rungs == [Rung.NONE, Rung.NONE, Rung.NUDGE, Rung.OTHER_APPROACH, Rung.ASK]


FAULTS = {
    "no_usable_answer": 2,
    "agent_crashed": 1,
    "agent_failed": 1,
    "agent_timed_out": 1,
    "agent_output_too_large": 1,
    "agent_not_started": 0,
    "provider_auth_missing": 0,
}


@pytest.mark.parametrize(("code", "retries"), FAULTS.items(), ids=FAULTS)
def test_a_fault_is_retried_as_often_as_that_is_worth_its_price_and_then_a_person_is_asked(
    code: str, retries: int
) -> None:
    run = msgspec.structs.replace(BUILDING, turns_allowed=9)
    failed = WorkerFailed(error={"code": code, "message": "It broke.", "details": {}})
    told = ["ask the builder"] * retries
    assert story(run, *[failed] * (retries + 1)) == [*told, "ask a person"]


def test_the_cause_that_a_model_names_decides_about_a_retry() -> None:
    details = {"model_error": "model_request_rejected"}
    rejected = WorkerFailed(error={"code": "no_usable_answer", "message": "Rejected.", "details": details})
    assert story(BUILDING, rejected) == ["ask a person"]


def test_a_person_is_asked_about_a_fault_by_its_name_and_with_two_choices() -> None:
    crashed = {"code": "agent_crashed", "message": "The agent crashed: SIGSEGV (exit code 139)", "details": {}}
    run, _ = step(BUILDING, WorkerFailed(error=crashed))
    run, asked = step(run, WorkerFailed(error=crashed))
    attempts = ({"role": "builder", "fingerprint": "", "outcome": "agent_crashed"},) * 2
    assert asked == AskPerson(
        question=(
            "The builder of `one` failed 2 times in a row. The agent crashed: SIGSEGV (exit code 139). Its output:"
            " `aop logs --agent one`. `retry` gives it another turn; `stop` keeps the work and blocks the feature."
        ),
        detail={"error": crashed, "attempts": attempts},
        gate="escalation",
        choices=("retry", "stop"),
    )
    assert story(run, PersonAnswered(question="?", answer="retry")) == ["ask the builder"]
    _run, ended = step(run, PersonAnswered(question="?", answer="stop"))
    assert ended == Finish(status=Status.BLOCKED, error=crashed)


def test_an_answer_between_two_crashes_begins_the_count_again() -> None:
    crashed = WorkerFailed(error={"code": "agent_crashed", "message": "It crashed.", "details": {}})
    run = msgspec.structs.replace(BUILDING, turns_allowed=9)
    events = (crashed, said(PATCH), refused("repo.apply_patch", "patch_does_not_apply"), crashed, crashed)
    assert story(run, *events) == [
        "ask the builder",
        "builder: repo.apply_patch",
        *["ask the builder"] * 2,
        "ask a person",
    ]


def test_the_question_about_used_turns_says_why_the_last_proposal_was_refused() -> None:
    run = msgspec.structs.replace(NEW, turns_allowed=1)
    run, _ = step(run, said(PLAN))
    _run, asked = step(run, refused("plan.submit", "invalid_plan"))
    assert isinstance(asked, AskPerson)
    assert asked.question == (
        "The planner of `one` used its 1 turn. Last refusal, by plan.submit: No. What should it do?"
    )


def test_progress_lets_the_worker_begin_at_the_foot_of_the_ladder_again() -> None:
    run, _ = step(BUILDING, WorkerFailed(error={"code": "no_usable_answer", "message": "Nothing."}))
    assert run.rung is Rung.NUDGE
    run, _ = step(run, said(PATCH))
    run, _ = step(run, refused("gates.run", "gate_failed", Mode.FAST))
    assert run.rung is Rung.NONE


def test_a_worker_without_an_answer_is_told_so_beside_what_it_has_to_repair() -> None:
    run, _ = step(BUILDING, refused("gates.run", "gate_failed", Mode.FAST))
    _run, action = step(run, WorkerFailed(error={"code": "no_usable_answer", "message": "Nothing."}))
    assert isinstance(action, AskWorker)
    assert [result.tool for result in action.results] == ["gates.run", "worker", "attempts"]


# --- every event everywhere ------------------------------------------------------------------------

OUTPUTS: tuple[WorkerOutput, ...] = (
    PLAN,
    PlanSubmission(plan={"revision_of": 1}),
    PATCH,
    Note(note=""),
    *(WorkerRequest(request=request, detail={}) for request in ("lock", "amend_plan", "context", "question")),
)
TOOLS = ("feature.init", "feature.state_patch", "plan.submit", "plan.update", "gates.run")
CODES = ("gate_failed", "collision_detected", "blocked_by_collision_policy", "lock_conflict", "lock_not_held", "x")


def every_event() -> Iterator[Event]:
    yield Began()
    yield PersonAnswered(question="?", answer="!")
    yield from (WayCleared(status=status, moved=moved) for status, moved in product(Status, (False, True)))
    for code in FAULTS:
        yield WorkerFailed(error={"code": code, "message": "Nothing."})
    yield PersonAnswered(question="?", answer="stop")
    yield from map(said, OUTPUTS)
    yield from (answered(tool, mode, status=status) for tool, mode, status in product(TOOLS, Mode, Status))
    yield from (answered(tool) for tool in ("repo.apply_patch", "locks.acquire", "feature.log_append"))
    yield answered("feature.state_get", version=1, front_matter={})
    tools = (*TOOLS, "repo.apply_patch", "locks.acquire", "feature.log_append", "feature.state_get")
    yield from (refused(tool, code, resources=["openapi"]) for tool, code in product(tools, CODES))


def every_run() -> Iterator[FeatureRun]:
    tried = (Attempt(role=Role.BUILDER, fingerprint="f", outcome="o"),) * 3
    variants: list[dict[str, Any]] = [
        {},
        {"turns": 3, "attempts": tried},
        {"turns": 3, "asked": True},
        {"asked": True, "attempts": tried, "pending": PATCH},
        {"fault": {"code": "agent_crashed", "message": "It crashed."}, "turns": 3},
    ]
    for status, role, rung in product(Status, (Role.PLANNER, Role.BUILDER, Role.QA), Rung):
        for variant in variants:
            yield msgspec.structs.replace(NEW, status=status, role=role, rung=rung, **variant)


def test_every_event_has_an_answer_in_every_place_and_all_of_it_can_be_kept_as_json() -> None:
    events = list(every_event())
    for run in every_run():
        for event in events:
            after, action = step(run, event)
            kept = msgspec.json.decode(msgspec.json.encode(after), type=FeatureRun)
            assert kept == after
            if after.turns >= after.turns_allowed:
                assert not isinstance(action, AskWorker), (run, event)
            assert not (isinstance(action, CallTool) and action.tool == "feature.ready_to_merge")


def test_no_worker_keeps_a_feature_busy_for_ever() -> None:
    """Whatever a worker says, again and again, with whatever the tools answer: it ends, or a person is asked."""
    for output, code in product(OUTPUTS, CODES):
        run, event = BUILDING, cast(Event, said(output))
        for _ in range(200):
            run, action = step(run, event)
            if isinstance(action, AskPerson | Await | Finish):
                break
            event = said(output) if isinstance(action, AskWorker) else reaction(action, code)
        else:
            raise AssertionError(f"{output} and {code} never end")


def reaction(action: Action, code: str) -> Event:
    if isinstance(action, CallTool) and action.tool == "feature.log_append":
        return answered(action.tool)
    tool = action.tool if isinstance(action, CallTool) else "gates.run"
    return refused(tool, code)
