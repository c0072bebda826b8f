"""Clarifications: questions of a build, with a limit, a due time and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.clock import later, timestamp
from aop.core.errors import Json, UnknownQuestion
from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.forge.builds.documents import BuildCycle
from aop.forge.projects.documents import ForgeProject
from aop.forge.projects.owners import may_reach
from aop.kernel.config.workflows import BuildRules
from aop.kernel.features.questions import put_question
from aop.kernel.gateway.calls import Call
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.questions import TIME_LIMIT, Question, close_question, question_at
from aop.kernel.record.port import JournalEntry, Snapshot, Transaction

REQUESTED = "build_clarification_request"
RESOLVED = "build_clarification_resolved"
LET_AI_DECIDE = "Let AI decide"
"""The option that is always there, and the answer when the time is up."""
TIMED_OUT = "(timed out — AI will decide)"
CLARIFICATION = "clarification"
"""The mark of such a question among its details."""

NO_ANSWER_CAME = "No answer came in time. Decide by the contracts, and go on."
DECIDE = "The user lets you decide. Decide by the contracts, and go on."

QuestionText = Annotated[str, Meta(min_length=1, max_length=200)]
ContextText = Annotated[str, Meta(max_length=300)]
OptionText = Annotated[str, Meta(min_length=1, max_length=200)]
Options = Annotated[tuple[OptionText, ...], Meta(min_length=2, max_length=4)]


class WantedAnswer(Struct, frozen=True, kw_only=True):
    """A question as a model asks it, without secrets."""

    question: str
    context: str = ""
    options: tuple[str, ...] = ()


def is_clarification(question: Question) -> bool:
    """Tell whether a build asks."""
    return question.detail.get(CLARIFICATION) is True


def limit_text(rules: BuildRules) -> str:
    """Return what a model gets that has asked too often (FORGE-236)."""
    return (
        f"The limit of {count(rules.max_questions, 'question')} a build is reached. Decide by the contracts, and go on."
    )


def budget_text(cycle: BuildCycle, rules: BuildRules) -> str:
    """Return what a builder is told of the questions that it may still ask (FORGE-170)."""
    left = max(0, rules.max_questions - cycle.questions)
    return f"You may ask the user {count(left, 'more question')} in this build. Ask only what no contract answers."


def asked_before(view: Snapshot, build_id: str, wanted: WantedAnswer) -> Question | None:
    """Return the question of the build that has the same words, answered or not."""
    words = _words(wanted.question)
    same = (each for each in clarifications_of(view, build_id) if _words(each.text) == words)
    return next((each for each in same if not each.closed_because), None)


def clarifications_of(view: Snapshot, build_id: str) -> list[Question]:
    """Return the questions of a build, oldest first."""
    found = [each for each in view.all(Question) if each.feature_id == build_id and is_clarification(each)]
    return sorted(found, key=lambda each: int(each.question_id[1:]))


def is_waiting(view: Snapshot, build_id: str, now: datetime) -> bool:
    """Tell whether a build waits for the answer to a question."""
    return any(question_at(each, now).is_open for each in clarifications_of(view, build_id))


def put_clarification(tx: Transaction, call: Call, cycle: BuildCycle, wanted: WantedAnswer) -> Question:
    """Put a question of a build into the inbox, count it, and tell those who follow the build."""
    rules, now = call.kernel.config().policy.forge.build, call.kernel.clock.now()
    options = tuple(dict.fromkeys((*wanted.options, LET_AI_DECIDE))) if wanted.options else ()
    question = put_question(
        tx,
        call,
        FeatureId(cycle.build_id),
        "question",
        wanted.question,
        detail={CLARIFICATION: True, "context": wanted.context, "options": list(options)},
        default=LET_AI_DECIDE,
        due_at=timestamp(later(now, rules.question_minutes * 60)),
    )
    tx.put(revise(cycle, questions=cycle.questions + 1, updated_at=call.kernel.now()), cycle.build_id)
    _log(tx, call, question, source="builder", message=question.text)
    tx.append(call.event(REQUESTED, question.feature_id, **_request(question)))
    return question


def _request(question: Question) -> dict[str, Json]:
    """Return the payload of FORGE-157."""
    context, options = question.detail["context"], question.detail["options"]
    return {
        "build_id": question.feature_id,
        "question_id": question.question_id,
        "question": question.text,
        **({"context": context} if context else {}),
        **({"options": options} if options else {}),
    }


def announce_end(tx: Transaction, call: Call, question: Question) -> None:
    """Tell those who follow a build how its question ended; one that was only closed has no answer."""
    if question.answer is None or tx.get(BuildCycle, question.feature_id) is None:
        return
    answer = TIMED_OUT if question.answered_by == TIME_LIMIT else question.answer
    facts = {"build_id": question.feature_id, "question_id": question.question_id, "answer": answer}
    _log(tx, call, question, source="user", message=answer)
    tx.append(call.event(RESOLVED, question.feature_id, **facts))


def _log(tx: Transaction, call: Call, question: Question, *, source: str, message: str) -> None:
    """Keep question and answer in the log of the build (FORGE-158)."""
    facts = {"build_id": question.feature_id, "level": "info", "source": source, "message": message}
    tx.append(call.event("build_log", question.feature_id, **facts))


def answer_for_model(question: Question) -> str | None:
    """Return what the model is told of a question that has ended; None while it is open."""
    if question.is_open:
        return None
    if question.answer is None or question.answered_by == TIME_LIMIT:
        return NO_ANSWER_CAME
    return DECIDE if question.answer == LET_AI_DECIDE else question.answer


def the_clarification(view: Snapshot, cycle: BuildCycle, question_id: str) -> Question:
    """Return a question of a build. Raises: UnknownQuestion."""
    question = view.get(Question, question_id)
    if question is None or question.feature_id != cycle.build_id or not is_clarification(question):
        raise UnknownQuestion(question_id)
    return question


def the_clarification_of_project(view: Snapshot, project: ForgeProject, question_id: str) -> Question:
    """Return a question of the active build of a project; any other is unknown (FORGE-161). Raises: UnknownQuestion."""
    question = view.get(Question, question_id)
    cycle = None if question is None else view.get(BuildCycle, question.feature_id)
    if cycle is None or cycle.project_id != project.project_id or cycle.status != "active":
        raise UnknownQuestion(question_id)
    return the_clarification(view, cycle, question_id)


def close_questions(tx: Transaction, call: Call, cycle: BuildCycle, why: str, *, only: str | None = None) -> int:
    """Close what a build still asks, or one question of it: nobody waits for the answers (FORGE-164).

    Returns how many were closed.
    """
    asked = [each for each in tx.all(Question) if each.feature_id == cycle.build_id and each.is_open]
    closed = [each for each in asked if only in (None, each.question_id)]
    for question in closed:
        tx.put(close_question(question, call.kernel.now(), why), question.question_id)
    return len(closed)


def open_requests(
    view: Snapshot, principal: Principal, now: datetime, *, project_id: str | None, until: int
) -> Iterator[JournalEntry]:
    """Return the events of open questions that a reader who comes back at this place has passed (FORGE-169)."""
    for build_id, names in _open_by_build(view, now).items():
        cycle = view.get(BuildCycle, build_id)
        project = None if cycle is None else view.get(ForgeProject, cycle.project_id)
        if project is None or not may_reach(principal, project) or project_id not in (None, project.project_id):
            continue
        for entry in view.journal(feature_id=FeatureId(build_id), kinds=(REQUESTED,)):
            if entry.seq <= until and entry.event.payload.get("question_id") in names:
                yield entry


def _open_by_build(view: Snapshot, now: datetime) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for question in view.all(Question):
        if is_clarification(question) and question_at(question, now).is_open:
            found.setdefault(question.feature_id, []).append(question.question_id)
    return found


def _words(text: str) -> Sequence[str]:
    return text.casefold().split()
