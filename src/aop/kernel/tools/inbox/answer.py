"""Tools `inbox.answer` and `inbox.expire`: the two ends of a question."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from aop.core.errors import AlreadyAnswered, UnknownQuestion
from aop.kernel.features.opened_paths import YES, store_path_answer
from aop.kernel.features.questions import LARGEST_TEXT, QuestionFacts, question_facts, settle_expired, store_answer
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, SYSTEM
from aop.kernel.plans.prerequisites import accept_prerequisite, check_prerequisite, place_spec
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Snapshot, Transaction


class QuestionArguments(ChangeArguments, frozen=True, kw_only=True):
    question_id: Annotated[str, Meta(pattern="^q[0-9]{1,9}$")]


def _question_named(view: Snapshot, arguments: QuestionArguments) -> Question:
    """Return the question that the arguments name. Raises: UnknownFeature, VersionConflict, UnknownQuestion."""
    the_feature(view, arguments)
    question = view.get(Question, arguments.question_id)
    if question is None or question.feature_id != arguments.feature_id:
        raise UnknownQuestion(arguments.question_id)
    return question


class AnswerArguments(QuestionArguments, frozen=True, kw_only=True):
    answer: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)]


def answer(call: Call, arguments: AnswerArguments) -> Outcome:
    """Answer a question once, so that its feature continues; a late answer only closes it."""
    text = call.kernel.redact(arguments.answer)
    _place_spec(call, arguments, text)

    def decide(tx: Transaction) -> Outcome:
        answered = store_answer(tx, call, _question_named(tx, arguments), text)
        if isinstance(answered, AlreadyAnswered):
            return answered
        if answered.opens:
            store_path_answer(tx, answered)
            kind = "path_opened" if text == YES else "path_kept_closed"
            tx.append(call.event(kind, answered.feature_id, path=answered.opens, question_id=answered.question_id))
        if answered.prerequisite is not None and text == YES:
            accept_prerequisite(tx, call, answered, answered.prerequisite)
        return question_facts(answered)

    return call.commit(decide)


def _place_spec(call: Call, arguments: AnswerArguments, text: str) -> None:
    """Write the spec of the feature that a yes creates, before other features wait for it."""
    with call.kernel.record.read() as view:
        question = view.get(Question, arguments.question_id)
        if text == YES and question is not None and question.is_open and question.prerequisite is not None:
            check_prerequisite(view, question.prerequisite)
            place_spec(call.kernel, view, question.prerequisite)


@committed
def expire(call: Call, arguments: QuestionArguments, tx: Transaction) -> Outcome:
    """Close a question past its time limit, with its default answer if it has one; leave any other."""
    return question_facts(settle_expired(tx, call, _question_named(tx, arguments)))


TOOLS = (
    Tool(
        name="inbox.answer",
        summary="Answer a question of the inbox.",
        arguments=AnswerArguments,
        output=QuestionFacts,
        roles=COORDINATORS,
        run=answer,
        # Not brief: a yes may write a spec under the lock of the files, which other calls take before the record's.
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="inbox.expire",
        summary="Close a question whose time is up.",
        arguments=QuestionArguments,
        output=QuestionFacts,
        roles=SYSTEM,
        run=expire,
        mutates=True,
        person_only=True,
    ),
)
