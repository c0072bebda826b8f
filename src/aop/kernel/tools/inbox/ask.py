"""Tool `inbox.ask`: one question to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from aop.core.errors import ForbiddenToolForRole
from aop.core.redaction.redactor import mask_json
from aop.core.roles import Role
from aop.kernel.features.questions import LARGEST_TEXT, join_question, put_question
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import Moment
from aop.kernel.record.documents.questions import Prerequisite
from aop.kernel.record.port import Transaction
from aop.kernel.record.requests import question_on

Choice = Annotated[str, Meta(min_length=1, max_length=200)]


class AskArguments(ChangeArguments, frozen=True, kw_only=True):
    gate: Literal["question", "escalation", "authorisation"]
    text: Annotated[str, Meta(min_length=1)]
    detail: Mapping[str, Any] = {}
    about: Annotated[str, Meta(max_length=400)] = ""
    """A topic that several features share: while a question on it is open, no second one is asked.
    The answer may lift a cap, so only AOP itself and the person at the terminal may set it."""
    since: Moment | None = None
    """When the cause arose: the answer to a question on this topic that was given later counts."""
    choices: Annotated[tuple[Choice, ...], Meta(max_length=20)] = ()
    default: Annotated[str, Meta(min_length=1, max_length=LARGEST_TEXT)] | None = None
    """The answer when the time is up; an authorisation has none."""
    prerequisite: Prerequisite | None = None
    """The feature that a `yes` creates, for which others wait; only AOP itself and the person at the terminal
    may offer one."""


class AskResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    question_id: str


def ask(call: Call, arguments: AskArguments) -> Outcome:
    """Put a question into the inbox."""
    if (arguments.about or arguments.prerequisite) and not (
        call.principal.person or call.principal.role is Role.SYSTEM
    ):
        raise ForbiddenToolForRole("An agent may not set `about` or `prerequisite`.", role=call.principal.role)
    text = call.kernel.redact(arguments.text)[:LARGEST_TEXT]
    # Silence is not consent: only a question can have a default answer, never an authorisation.
    default = call.kernel.redact(arguments.default) if arguments.default and arguments.gate == "question" else None
    detail = mask_json(arguments.detail, call.kernel.redact)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        same = question_on(tx, arguments.about, since=arguments.since or "")
        if same is not None:
            join_question(tx, call, same, state.feature_id)
            return AskResult(feature_id=state.feature_id, question_id=same.question_id)
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
        return AskResult(feature_id=state.feature_id, question_id=question.question_id)

    return call.commit(decide)


TOOLS = (
    Tool(
        name="inbox.ask",
        summary="Ask a person; the question stays in the inbox until it is answered or its time is up.",
        arguments=AskArguments,
        output=AskResult,
        roles=COORDINATORS,
        run=ask,
        mutates=True,
        brief=True,
    ),
)
