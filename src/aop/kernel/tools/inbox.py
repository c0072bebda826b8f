"""Tools on what only a person can answer: asking, looking, answering. A question stays open until a person answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import AlreadyAnswered, ForbiddenToolForRole, NotAChoice, UnknownQuestion
from aop.core.ids import FeatureId
from aop.core.redaction import masked
from aop.core.roles import Role
from aop.kernel.calls import Arguments, Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.merging import unapproved
from aop.kernel.permissions import COORDINATORS, READERS, SYSTEM
from aop.kernel.permits import YES, keep_answer
from aop.kernel.questions import HumanGate, Question, as_of, time_limit
from aop.kernel.record import Snapshot, Transaction

LARGEST_TEXT = 16_000
Choice = Annotated[str, Meta(min_length=1, max_length=200)]


class Ask(ChangeArguments, frozen=True, kw_only=True):
    gate: Literal["question", "escalation", "authorisation"]
    text: Annotated[str, Meta(min_length=1)]
    detail: Mapping[str, Any] = {}
    about: Annotated[str, Meta(max_length=400)] = ""
    """Names what is asked where several features ask the same: while one such question is open, there is no second.
    AOP lets a cap be passed by the answer, so only AOP itself and the person at the terminal name one."""
    choices: Annotated[tuple[Choice, ...], Meta(max_length=20)] = ()
    default: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)] | None = None
    """The answer of a question that nobody answers in time; an authorisation has none."""


class Asked(Struct, frozen=True, kw_only=True):
    feature_id: str
    question_id: str


def ask(call: Call, arguments: Ask) -> Outcome:
    """Put a question into the inbox."""
    if arguments.about and not (call.principal.person or call.principal.role is Role.SYSTEM):
        raise ForbiddenToolForRole(
            "No token that an agent holds says what an answer is about.", role=call.principal.role
        )
    text = call.kernel.redact(arguments.text)[:LARGEST_TEXT]
    # Silence is no yes: only what is no permission can have an answer that nobody gave.
    default = call.kernel.redact(arguments.default) if arguments.default and arguments.gate == "question" else None
    detail = masked(arguments.detail, call.kernel.redact)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        same = next(
            (each for each in tx.all(Question) if each.is_open and arguments.about and each.about == arguments.about),
            None,
        )
        if same is not None:
            return Asked(feature_id=state.feature_id, question_id=same.question_id)
        question = put_question(
            tx,
            call,
            state.feature_id,
            arguments.gate,
            text,
            detail=detail,
            about=arguments.about,
            choices=arguments.choices,
            default=default,
        )
        return Asked(feature_id=state.feature_id, question_id=question.question_id)

    return call.commit(decide)


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
    default: str | None
    opens: str
    """The guarded path that a `yes` opens for the feature; empty for every other question."""
    due_at: str
    asked_by: str
    asked_at: str
    answer: str | None
    answered_by: str
    answered_at: str
    closed_because: str


class ApprovalWanted(Struct, frozen=True, kw_only=True):
    """A feature that is ready, and that only a person can let on; `aop approve` clears it, and nothing else."""

    feature_id: str
    tree: str
    since: str
    """When the feature was last changed."""
    how: str
    """The commands to look at it and to approve it."""


class Inbox(Struct, frozen=True, kw_only=True):
    questions: tuple[QuestionFacts, ...]
    approvals: tuple[ApprovalWanted, ...]
    """The features that wait for an approval."""


def list_questions(call: Call, arguments: ListQuestions) -> Outcome:
    """Return the questions that are open, oldest first, and the features that wait for an approval."""
    with call.kernel.record.read() as view:
        now = call.kernel.clock.now()
        found = [as_of(each, now) for each in view.all(Question) if call.principal.reaches(each.feature_id)]
        approvals = tuple(
            ApprovalWanted(
                feature_id=state.feature_id,
                tree=state.tree,
                since=state.last_updated,
                how=f"aop review {state.feature_id}, and then aop approve {state.feature_id}",
            )
            for state in unapproved(call.kernel, view)
            if call.principal.reaches(state.feature_id)
        )
    wanted = [_facts(each) for each in sorted(found, key=_number) if arguments.answered or each.is_open]
    return Inbox(questions=tuple(wanted), approvals=approvals)


def _number(question: Question) -> int:
    return int(question.question_id.removeprefix("q"))


def _facts(question: Question) -> QuestionFacts:
    return QuestionFacts(**{name: getattr(question, name) for name in QuestionFacts.__struct_fields__})


class QuestionArguments(ChangeArguments, frozen=True, kw_only=True):
    question_id: Annotated[str, Meta(pattern="^q[0-9]{1,9}$")]


def _the_question(view: Snapshot, arguments: QuestionArguments) -> Question:
    """Return the question that the arguments name.

    Raises: UnknownFeature, VersionConflict, UnknownQuestion.
    """
    the_feature(view, arguments)
    question = view.get(Question, arguments.question_id)
    if question is None or question.feature_id != arguments.feature_id:
        raise UnknownQuestion(arguments.question_id)
    return question


class Answer(QuestionArguments, frozen=True, kw_only=True):
    answer: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)]


def answer(call: Call, arguments: Answer) -> Outcome:
    """Answer a question, once; whoever waits for it goes on. An answer that comes too late only settles that."""
    text = call.kernel.redact(arguments.answer)

    def decide(tx: Transaction) -> Outcome:
        known = _the_question(tx, arguments)
        question = _settled(tx, call, known)
        if not known.is_open:
            raise _over(question)
        if not question.is_open:
            return _over(question)
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
        if question.opens:
            keep_answer(tx, answered)
            kind = "path_opened" if text == YES else "path_kept_closed"
            tx.append(call.event(kind, question.feature_id, path=question.opens, question_id=question.question_id))
        return _facts(answered)

    return call.commit(decide)


def _settled(tx: Transaction, call: Call, question: Question) -> Question:
    """Keep that the time of a question is up, if it is; return the question as it stands."""
    now = as_of(question, call.kernel.clock.now())
    if now is not question:
        tx.put(now, now.question_id)
        tx.append(call.event("question_expired", now.feature_id, question_id=now.question_id, answer=now.answer))
    return now


def _over(question: Question) -> AlreadyAnswered:
    return AlreadyAnswered(
        f"The question `{question.question_id}` was answered by {question.answered_by}."
        if question.answer is not None
        else f"The question `{question.question_id}` is closed: {question.closed_because}",
        question_id=question.question_id,
        answer=question.answer,
    )


# --- inbox.expire ----------------------------------------------------------------------------------


def expire(call: Call, arguments: QuestionArguments) -> Outcome:
    """Close a question whose time is up, with its default answer or with none; leave any other as it is."""

    def decide(tx: Transaction) -> Outcome:
        return _facts(_settled(tx, call, _the_question(tx, arguments)))

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
        brief=True,
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
        brief=True,
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
