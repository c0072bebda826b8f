"""Questions of a build: asked by its agents, answered by a person, by time, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.questions import Question
from tests.clocks import HandClock
from tests.forge.builds.cycles import begun, coder
from tests.world import World, run_aop

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
EVENTS = ("build_log", "build_clarification_request", "build_clarification_resolved")


def call(world: World, build: str, role: Role = Role.CODER, operation: str | None = None, **arguments: Any) -> Envelope:
    return world.app.gateway.call(coder(build, role), "forge_ask_clarification", arguments, operation_id=operation)


def ask(world: World, build: str, question: str = "Which currency?", **more: Any) -> Any:
    answer = call(world, build, question=question, **more)
    assert answer.ok, answer.error
    return answer.data


def answer_of(world: World, build: str, question_id: str) -> Any:
    return call(world, build, question_id=question_id).data


def events(world: World, *kinds: str) -> list[tuple[str, Any]]:
    with world.app.record.read() as view:
        return [(each.event.kind, dict(each.event.payload)) for each in view.journal(kinds=kinds or EVENTS)]


def count(world: World, build: str) -> int:
    with world.app.record.read() as view:
        cycle = view.get(BuildCycle, build)
    assert cycle is not None
    return cycle.questions


def say(world: World, build: str, question_id: str, text: str) -> Envelope:
    return world.call("inbox.answer", feature_id=build, question_id=question_id, answer=text)


@pytest.mark.req("FORGE-152", "FORGE-157", "FORGE-158", "FORGE-160", "FORGE-171")
def test_a_question_is_put_answered_and_told_to_those_who_follow(world: World, build: str) -> None:
    asked = ask(world, build, context="Prices need one.", options=["EUR", "USD"])
    assert (asked["question_id"], asked["status"], asked["build_id"]) == ("q1", "asked", build)
    assert say(world, build, "q1", "EUR").ok
    assert answer_of(world, build, "q1") == {
        "build_id": build,
        "question_id": "q1",
        "status": "answered",
        "text": "EUR",
    }
    assert events(world) == [
        ("build_log", {"build_id": build, "level": "info", "source": "builder", "message": "Which currency?"}),
        (
            "build_clarification_request",
            {
                "build_id": build,
                "question_id": "q1",
                "question": "Which currency?",
                "context": "Prices need one.",
                "options": ["EUR", "USD", "Let AI decide"],
            },
        ),
        ("build_log", {"build_id": build, "level": "info", "source": "user", "message": "EUR"}),
        ("build_clarification_resolved", {"build_id": build, "question_id": "q1", "answer": "EUR"}),
    ]


@pytest.mark.req("FORGE-157")
def test_a_question_without_context_and_options_has_neither_in_its_event(world: World, build: str) -> None:
    ask(world, build)
    facts = {"build_id": build, "question_id": "q1", "question": "Which currency?"}
    assert events(world, "build_clarification_request") == [("build_clarification_request", facts)]


@pytest.mark.req("FORGE-159", "FORGE-160", "FORGE-236")
def test_after_ten_minutes_the_model_decides(world: World, clock: HandClock, build: str) -> None:
    ask(world, build)
    clock.go_on(599)
    assert world.ok("inbox.list")["questions"][0]["due_at"] == "2026-01-02T12:10:00.000Z"
    clock.go_on(1)
    assert answer_of(world, build, "q1")["text"] == "No answer came in time. Decide by the contracts, and go on."
    resolved = {"build_id": build, "question_id": "q1", "answer": "(timed out — AI will decide)"}
    assert events(world, "build_clarification_resolved") == [("build_clarification_resolved", resolved)]
    late = say(world, build, "q1", "EUR")
    assert late.error is not None
    assert late.error["code"] == "already_answered"
    assert len(events(world, "build_clarification_resolved")) == 1


@pytest.mark.req("FORGE-153")
def test_an_agent_that_asks_for_the_answer_waits_a_while_for_it(world: World, clock: HandClock, build: str) -> None:
    ask(world, build)
    clock.meanwhile = lambda: len(clock.pauses) == 8 and say(world, build, "q1", "EUR")
    assert answer_of(world, build, "q1")["text"] == "EUR"
    assert sum(clock.pauses) == 2.0


def test_an_agent_that_gets_no_answer_for_a_while_is_told_how_to_go_on(
    world: World, clock: HandClock, build: str
) -> None:
    ask(world, build)
    clock.pauses.clear()
    waited = answer_of(world, build, "q1")
    assert (waited["status"], sum(clock.pauses)) == ("asked", 20.0)
    assert "`forge_ask_clarification` with `question_id` `q1`" in waited["text"]


@pytest.mark.req("FORGE-156", "FORGE-236")
def test_the_eleventh_question_is_answered_at_once_and_nobody_is_asked(world: World, build: str) -> None:
    for number in range(10):
        ask(world, build, f"Question {number}?")
    before = len(events(world))
    assert ask(world, build, "One more?") == {
        "build_id": build,
        "question_id": "",
        "status": "limit_reached",
        "text": "The limit of 10 questions a build is reached. Decide by the contracts, and go on.",
    }
    assert (len(events(world)), count(world, build)) == (before, 10)


def test_the_same_question_is_asked_once_and_keeps_its_answer(world: World, build: str) -> None:
    first = ask(world, build)
    assert ask(world, build, "which  CURRENCY?") == first
    say(world, build, "q1", "EUR")
    assert ask(world, build)["text"] == "EUR"
    assert (count(world, build), len(events(world, "build_clarification_request"))) == (1, 1)


def test_a_call_that_is_sent_again_asks_once(world: World, build: str) -> None:
    first = call(world, build, operation="op-ask", question="Which currency?")
    again = call(world, build, operation="op-ask", question="Which currency?")
    assert (first, count(world, build)) == (again, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": ""},
        {"question": "x" * 201},
        {"question": "Which?", "context": "x" * 301},
        {"question": "Which?", "options": ["EUR"]},
        {"question": "Which?", "options": ["a", "b", "c", "d", "e"]},
        {"question": "Which?", "question_id": "q1"},
        {"question": "Which?", "options": "EUR"},
    ],
)
@pytest.mark.req("FORGE-152")
def test_a_question_that_is_refused_is_not_counted(world: World, build: str, arguments: dict[str, Any]) -> None:
    refused = call(world, build, **arguments)
    assert refused.error is not None
    assert refused.error["code"] == "invalid_arguments"
    assert (count(world, build), events(world)) == (0, [])


@pytest.mark.req("FORGE-163")
@pytest.mark.parametrize(
    ("role", "code"),
    [
        (Role.FORGE_BUILDER, None),
        (Role.SCOUT, None),
        (Role.CODER, None),
        (Role.AUDITOR, "forbidden_tool_for_role"),
        (Role.FIXER, "forbidden_tool_for_role"),
    ],
)
def test_auditor_and_fixer_may_not_ask(world: World, build: str, role: Role, code: str | None) -> None:
    error = call(world, build, role, question="Which currency?").error
    assert (None if error is None else error["code"]) == code


@pytest.mark.req("FORGE-161")
def test_only_its_own_id_answers_a_question(world: World, build: str) -> None:
    other = begun(world, "other")
    ask(world, build)
    ask(world, other, "Which colour?")
    project, foreign = build.rpartition("-")[0], other.rpartition("-")[0]
    wrong: list[dict[str, Any]] = [
        {"project_id": project, "question_id": "q2"},
        {"project_id": foreign, "question_id": "q1"},
        {"project_id": project, "question_id": "q9"},
    ]
    codes = [world.refusal("forge.clarify", **each, answer="EUR")["code"] for each in wrong]
    assert codes == ["unknown_question"] * 3
    assert world.refusal("forge.clarify", project_id="none", question_id="q1", answer="x")["code"] == "unknown_project"
    assert world.ok("forge.clarify", project_id=project, question_id="q1", answer="EUR")["answer"] == "EUR"
    assert answer_of(world, build, "q1")["text"] == "EUR"
    again = world.refusal("forge.clarify", project_id=project, question_id="q1", answer="USD")
    assert again["code"] == "already_answered"
    asked = call(world, build, question_id="q2")
    assert asked.error is not None
    assert asked.error["code"] == "unknown_question"


@pytest.mark.req("FORGE-161")
def test_a_question_of_the_inbox_that_no_build_asked_is_not_clarified(world: World, build: str) -> None:
    world.ok("inbox.ask", feature_id=build, gate="escalation", text="Help?")
    project = build.rpartition("-")[0]
    assert world.refusal("forge.clarify", project_id=project, question_id="q1", answer="x")["code"] == (
        "unknown_question"
    )


def test_a_person_may_let_the_model_decide_where_no_option_says_so(world: World, build: str) -> None:
    ask(world, build)
    say(world, build, "q1", "Let AI decide")
    assert answer_of(world, build, "q1")["text"] == "The user lets you decide. Decide by the contracts, and go on."


def test_a_build_that_has_ended_asks_nothing_and_answers_nothing(world: World, build: str) -> None:
    ask(world, build)
    with world.app.record.write() as tx:
        cycle = tx.get(BuildCycle, build)
        assert cycle is not None
        tx.put(revise(cycle, status="abandoned"), build)
    refused = call(world, build, question="Which colour?")
    assert refused.error is not None
    assert refused.error["code"] == "build_ended"
    project = build.rpartition("-")[0]
    assert world.refusal("forge.clarify", project_id=project, question_id="q1", answer="x")["code"] == (
        "unknown_question"
    )


def test_no_secret_in_a_question_or_an_answer_is_kept(world: World, build: str) -> None:
    ask(world, build, f"Use {SECRET}?", context=SECRET, options=[SECRET, "no"])
    say(world, build, "q1", f"Yes, {SECRET}")
    assert SECRET.encode() not in (world.root / ".aop/record.db").read_bytes()


@pytest.mark.req("FORGE-159", "FORGE-172")
def test_a_person_answers_at_the_terminal_and_sees_the_options(world: World, build: str) -> None:
    ask(world, build, options=["EUR", "USD"], context="Prices need one.")
    with world.app.record.write() as tx:
        question = tx.get(Question, "q1")
        assert question is not None
        # The process has the clock of this machine.
        tx.put(revise(question, due_at="2999-01-01T00:00:00.000Z"), "q1")
    shown = run_aop(world.root, "inbox")
    assert "Options: EUR | USD | Let AI decide" in " ".join(shown.out.split())
    assert "Prices need one." in shown.out
    answered = run_aop(world.root, "answer", "q1", "USD")
    assert (answered.code, answered.out) == (0, "")
    assert answer_of(world, build, "q1")["text"] == "USD"
    assert events(world, "build_clarification_resolved")[0][1]["answer"] == "USD"
