"""Questions: put into the inbox, and shown in answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.questions import HumanGate, Prerequisite, Question, time_limit
from aop.kernel.record.port import Transaction

LARGEST_TEXT = 16_000


class QuestionFacts(Struct, frozen=True, kw_only=True):
    question_id: str
    feature_id: FeatureId
    gate: str
    text: str
    detail: Mapping[str, Any]
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
    """Put a question into the inbox, under the next number."""
    question = Question(
        version=1,
        question_id=f"q{1 + sum(1 for _ in tx.all(Question))}",
        feature_id=feature_id,
        gate=gate,
        text=text,
        due_at=time_limit(call.kernel.config().policy.inbox, gate, call.kernel.clock.now()),
        asked_by=call.principal.actor,
        asked_at=call.kernel.now(),
        **more,
    )
    tx.put(question, question.question_id)
    tx.append(call.event("question_asked", feature_id, question_id=question.question_id, text=text))
    return question


def question_facts(question: Question) -> QuestionFacts:
    """Return a question as answers show it."""
    return copy_fields(QuestionFacts, question)
