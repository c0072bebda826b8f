"""Question documents: a question to a person, its choices and its answer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from aop.core.clock import later, timestamp
from aop.core.ids import FEATURE_ID_PATTERN, FeatureId
from aop.kernel.config.people import InboxRules
from aop.kernel.record.documents.base import Document, NonEmpty, revise

HumanGate: TypeAlias = Literal["question", "approval", "escalation", "authorisation"]
RAISE, STOP = "raise", "stop"
"""The answers to an authorisation about cost."""
PRICED, UNCAPPED = "priced", "uncapped"
"""The answers to an authorisation about a model without a price; `stop` is the third."""
RESUME = "resume"
"""The answer that ends a feature's wait for its model's quota; `stop` is the other one."""
RETRY = "retry"
"""The answer that gives a failed worker another turn; `stop` is the other one."""


class Prerequisite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files that several features would create, as a separate feature."""

    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)]
    files: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=1000)]
    """The files it makes."""
    needed_by: Annotated[tuple[FeatureId, ...], Meta(min_length=1, max_length=1000)]
    """The features that wait until it is merged, and then begin anew."""
    summary: str = ""
    """The purpose of the colliding plan: nothing else is known of a plan that was not accepted."""


class Question(Document, frozen=True, kw_only=True):
    """Something that only a person can answer; it stays open until one does."""

    kind: ClassVar[str] = "question"

    question_id: NonEmpty
    """Short, for a person types it."""
    feature_id: FeatureId
    gate: HumanGate
    text: NonEmpty
    detail: Mapping[str, Any] = {}
    about: str = ""
    """Key of a question that several features share and a person answers once; empty for a question of one feature."""
    features: tuple[FeatureId, ...] = ()
    """The other features that wait for the same answer."""
    choices: tuple[str, ...] = ()
    """The only answers that there are; empty where any text is one."""
    default: str | None = None
    """The answer when the time is up; None: there is none."""
    opens: str = ""
    """The guarded path that a yes opens for the feature; only the tool that asks for a path sets it."""
    prerequisite: Prerequisite | None = None
    """The feature that a yes creates; only AOP itself sets it."""
    sets_up: str = ""
    """The tree whose set-up commands may use the network after a yes; only AOP itself sets it."""
    due_at: str = ""
    """When the time is up; empty: never."""
    asked_by: NonEmpty
    asked_at: NonEmpty
    answer: str | None = None
    answered_by: str = ""
    answered_at: str = ""
    """When it was answered or closed."""
    closed_because: str = ""
    """Why it was closed without an answer."""

    @property
    def is_open(self) -> bool:
        """Tell whether it still waits for an answer."""
        return self.answer is None and not self.closed_because

    def concerns(self, feature_id: FeatureId) -> bool:
        """Tell whether a feature waits for its answer."""
        return feature_id == self.feature_id or feature_id in self.features

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether its time is up without an answer."""
        return self.is_open and bool(self.due_at) and datetime.fromisoformat(self.due_at) <= now


def time_limit(rules: InboxRules, gate: HumanGate, asked: datetime) -> str:
    """Return when the time of something that is asked now is up; empty: never. An approval has no limit."""
    hours = {
        "question": rules.question_timeout_hours,
        "escalation": rules.escalation_timeout_hours,
        "authorisation": rules.authorisation_timeout_hours,
    }.get(gate, 0)
    return timestamp(later(asked, hours * 3600)) if hours else ""


TIME_LIMIT = "time limit"
"""The author of a default answer."""
NOBODY_ANSWERED = "Nobody answered in time."


def question_at(question: Question, now: datetime) -> Question:
    """Return a question as all its readers see it now: when its time is up, with its default answer, or closed."""
    if not question.is_overdue(now):
        return question
    return revise(
        question,
        answer=question.default,
        answered_by=TIME_LIMIT if question.default is not None else "",
        answered_at=question.due_at,
        closed_because="" if question.default is not None else NOBODY_ANSWERED,
    )


def close_question(question: Question, now: str, why: str) -> Question:
    """Return the question, closed without an answer."""
    return revise(question, answered_at=now, closed_because=why)


def without_feature(question: Question, feature_id: FeatureId, now: str) -> Question:
    """Return an open question after one of its features was deleted: the others wait for it, or it is closed."""
    others = [name for name in (question.feature_id, *question.features) if name != feature_id]
    if not others:
        return close_question(question, now, "Its feature was deleted.")
    return revise(question, feature_id=others[0], features=tuple(others[1:]))


def reminders_due(rules: InboxRules, asked_at: str, now: datetime) -> int:
    """Return how many reminders of something have become due since it was asked."""
    left = (now - datetime.fromisoformat(asked_at)).total_seconds() / 60
    wait, due = rules.remind_after_minutes, 0
    if not wait:
        return 0
    while wait < rules.remind_max_minutes and left >= wait and rules.remind_multiplier > 1:
        left, due, wait = left - wait, due + 1, wait * rules.remind_multiplier
    return due + max(0, int(left // min(wait, rules.remind_max_minutes)))
