"""Questions: put into the inbox, answered once, and shown in answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.core.errors import AlreadyAnswered, NotAChoice
from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.questions import HumanGate, Prerequisite, Question, question_at, time_limit
from aop.kernel.record.port import Transaction
from aop.kernel.record.role_sessions import renew_roles

LARGEST_TEXT = 16_000


class QuestionFacts(Struct, frozen=True, kw_only=True):
    question_id: str
    feature_id: FeatureId
    gate: str
    text: str
    detail: Mapping[str, Any]
    features: tuple[str, ...]
    """The other features that wait for the same answer."""
    choices: tuple[str, ...]
    default: str | None
    opens: str
    """The guarded path that a `yes` opens for the feature; empty for every other question."""
    prerequisite: Prerequisite | None
    """The feature that a `yes` creates, for which others wait; null for every other question."""
    due_at: str
    asked_by: str
    asked_at: str
    answer: str | None
    answered_by: str
    answered_at: str
    closed_because: str


def put_question(
    tx: Transaction, call: Call, feature_id: FeatureId, gate: HumanGate, text: str, **more: Any
) -> Question:
    """Put a question into the inbox, under the next number; without a `due_at` its time is that of its gate."""
    more.setdefault("due_at", time_limit(call.kernel.config().policy.inbox, gate, call.kernel.clock.now()))
    question = Question(
        version=1,
        question_id=f"q{1 + sum(1 for _ in tx.all(Question))}",
        feature_id=feature_id,
        gate=gate,
        text=text,
        asked_by=call.principal.actor,
        asked_at=call.kernel.now(),
        **more,
    )
    tx.put(question, question.question_id)
    tx.append(call.event("question_asked", feature_id, question_id=question.question_id, text=text))
    renew_roles(tx, feature_id, now=call.kernel.now())
    return question


def join_question(tx: Transaction, call: Call, question: Question, feature_id: FeatureId) -> None:
    """Let one more feature wait for the answer to an open question."""
    if question.is_open and not question.concerns(feature_id):
        tx.put(revise(question, features=(*question.features, feature_id)), question.question_id)
        tx.append(call.event("question_joined", feature_id, question_id=question.question_id))
        renew_roles(tx, feature_id, now=call.kernel.now())


def settle_expired(tx: Transaction, call: Call, question: Question) -> Question:
    """Close a question past its time limit; return the question as it is then."""
    now = question_at(question, call.kernel.clock.now())
    if now is not question:
        tx.put(now, now.question_id)
        tx.append(call.event("question_expired", now.feature_id, question_id=now.question_id, answer=now.answer))
        call.kernel.question_ended(tx, call, now)
        _renew_all(tx, call, now)
    return now


def store_answer(tx: Transaction, call: Call, question: Question, text: str) -> Question | AlreadyAnswered:
    """Answer a question once; one that is just found to be past its time is closed, and that is the verdict.

    Raises: AlreadyAnswered, NotAChoice.
    """
    now = settle_expired(tx, call, question)
    if not question.is_open:
        raise _already_answered(now)
    if not now.is_open:
        return _already_answered(now)
    if now.choices and text not in now.choices:
        raise NotAChoice(now.question_id, now.choices)
    answered = revise(now, answer=text, answered_by=call.principal.actor, answered_at=call.kernel.now())
    tx.put(answered, answered.question_id)
    tx.append(call.event("question_answered", answered.feature_id, question_id=answered.question_id, answer=text))
    call.kernel.question_ended(tx, call, answered)
    _renew_all(tx, call, answered)
    return answered


def _renew_all(tx: Transaction, call: Call, question: Question) -> None:
    for name in (question.feature_id, *question.features):
        renew_roles(tx, name, now=call.kernel.now())


def _already_answered(question: Question) -> AlreadyAnswered:
    return AlreadyAnswered(
        f"The question `{question.question_id}` was answered by {question.answered_by}."
        if question.answer is not None
        else f"The question `{question.question_id}` is closed: {question.closed_because}",
        question_id=question.question_id,
        answer=question.answer,
    )


def question_facts(question: Question) -> QuestionFacts:
    """Return a question as answers show it."""
    return copy_fields(QuestionFacts, question)
