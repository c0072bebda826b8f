"""Tools on what only a person can answer: asking and looking. A question stays open until a person answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from aop.core.errors import ForbiddenToolForRole
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import masked
from aop.core.roles import Role
from aop.kernel.gateway.calls import Arguments, Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, READERS
from aop.kernel.merges.merge import unapproved
from aop.kernel.record.documents.questions import HumanGate, Prerequisite, Question, as_of, time_limit
from aop.kernel.record.port import Transaction

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
    prerequisite: Prerequisite | None = None
    """What a `yes` makes a feature of its own, which others wait for; only AOP itself and the person at the terminal
    offer one."""


class Asked(Struct, frozen=True, kw_only=True):
    feature_id: str
    question_id: str


def ask(call: Call, arguments: Ask) -> Outcome:
    """Put a question into the inbox."""
    if (arguments.about or arguments.prerequisite) and not (
        call.principal.person or call.principal.role is Role.SYSTEM
    ):
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
            prerequisite=arguments.prerequisite,
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
    prerequisite: Prerequisite | None
    """What a `yes` makes a feature of its own, which others wait for; null for every other question."""
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
    wanted = [facts_of(each) for each in sorted(found, key=_number) if arguments.answered or each.is_open]
    return Inbox(questions=tuple(wanted), approvals=approvals)


def _number(question: Question) -> int:
    return int(question.question_id.removeprefix("q"))


def facts_of(question: Question) -> QuestionFacts:
    """Return what is told of a question."""
    return QuestionFacts(**{name: getattr(question, name) for name in QuestionFacts.__struct_fields__})


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
)
