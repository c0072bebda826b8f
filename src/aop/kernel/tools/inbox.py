"""Tools on what only a person can answer: asking, looking, answering. A question stays open until a person answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import AlreadyAnswered, NotAChoice, UnknownQuestion
from aop.core.ids import FeatureId
from aop.kernel.calls import Arguments, Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.permissions import COORDINATORS, READERS
from aop.kernel.questions import Question
from aop.kernel.record import Transaction

LARGEST_TEXT = 16_000
Choice = Annotated[str, Meta(min_length=1, max_length=200)]


class Ask(ChangeArguments, frozen=True, kw_only=True):
    gate: Literal["question", "escalation", "authorisation"]
    text: Annotated[str, Meta(min_length=1)]
    detail: Mapping[str, Any] = {}
    about: Annotated[str, Meta(max_length=400)] = ""
    """Names what is asked where several features ask the same: while one such question is open, there is no second."""
    choices: Annotated[tuple[Choice, ...], Meta(max_length=20)] = ()


class Asked(Struct, frozen=True, kw_only=True):
    feature_id: str
    question_id: str


def ask(call: Call, arguments: Ask) -> Outcome:
    """Put a question into the inbox."""
    text = call.kernel.redact(arguments.text)[:LARGEST_TEXT]

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        known = list(tx.all(Question))
        same = next(
            (each for each in known if _is_open(each) and arguments.about and each.about == arguments.about), None
        )
        if same is not None:
            return Asked(feature_id=state.feature_id, question_id=same.question_id)
        question = Question(
            version=1,
            question_id=f"q{1 + len(known)}",
            feature_id=state.feature_id,
            gate=arguments.gate,
            text=text,
            detail=arguments.detail,
            about=arguments.about,
            choices=arguments.choices,
            asked_by=call.principal.actor,
            asked_at=call.kernel.now(),
        )
        tx.put(question, question.question_id)
        tx.append(call.event("question_asked", state.feature_id, question_id=question.question_id, text=text))
        return Asked(feature_id=state.feature_id, question_id=question.question_id)

    return call.commit(decide)


def _is_open(question: Question) -> bool:
    return question.answer is None


class ListQuestions(Arguments, frozen=True, kw_only=True):
    answered: bool = False
    """Whether questions that were answered are listed too."""


class QuestionFacts(Struct, frozen=True, kw_only=True):
    question_id: str
    feature_id: FeatureId
    gate: str
    text: str
    detail: Mapping[str, Any]
    choices: tuple[str, ...]
    asked_by: str
    asked_at: str
    answer: str | None
    answered_by: str
    answered_at: str


class Inbox(Struct, frozen=True, kw_only=True):
    questions: tuple[QuestionFacts, ...]


def list_questions(call: Call, arguments: ListQuestions) -> Outcome:
    """Return the questions that are open, oldest first."""
    with call.kernel.record.read() as view:
        found = [question for question in view.all(Question) if call.principal.reaches(question.feature_id)]
    wanted = [_facts(each) for each in sorted(found, key=_number) if arguments.answered or each.answer is None]
    return Inbox(questions=tuple(wanted))


def _number(question: Question) -> int:
    return int(question.question_id.removeprefix("q"))


def _facts(question: Question) -> QuestionFacts:
    return QuestionFacts(**{name: getattr(question, name) for name in QuestionFacts.__struct_fields__})


class Answer(ChangeArguments, frozen=True, kw_only=True):
    question_id: Annotated[str, Meta(pattern="^q[0-9]{1,9}$")]
    answer: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)]


def answer(call: Call, arguments: Answer) -> Outcome:
    """Answer a question, once; whoever waits for it goes on."""
    text = call.kernel.redact(arguments.answer)

    def decide(tx: Transaction) -> Outcome:
        the_feature(tx, arguments)
        question = tx.get(Question, arguments.question_id)
        if question is None or question.feature_id != arguments.feature_id:
            raise UnknownQuestion(arguments.question_id)
        if question.answer is not None:
            raise AlreadyAnswered(
                f"The question `{question.question_id}` was answered by {question.answered_by}.",
                question_id=question.question_id,
                answer=question.answer,
            )
        if question.choices and text not in question.choices:
            raise NotAChoice(question.question_id, question.choices)
        answered = msgspec.structs.replace(
            question,
            version=question.version + 1,
            answer=text,
            answered_by=call.principal.actor,
            answered_at=call.kernel.now(),
        )
        tx.put(answered, question.question_id)
        facts = {"question_id": question.question_id, "answer": text}
        tx.append(call.event("question_answered", question.feature_id, **facts))
        return _facts(answered)

    return call.commit(decide)


TOOLS = (
    Tool(
        name="inbox.ask",
        summary="Ask a person something; the question stays in the inbox until one answers.",
        arguments=Ask,
        output=Asked,
        roles=COORDINATORS,
        run=ask,
        mutates=True,
    ),
    Tool(
        name="inbox.list",
        summary="Return what people are asked.",
        arguments=ListQuestions,
        output=Inbox,
        roles=READERS,
        run=list_questions,
    ),
    Tool(
        name="inbox.answer",
        summary="Answer a question of the inbox.",
        arguments=Answer,
        output=QuestionFacts,
        roles=COORDINATORS,
        run=answer,
        mutates=True,
        person_only=True,
    ),
)
