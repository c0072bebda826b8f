"""Questions of a build: `forge_ask_clarification`, and `forge.clarify` to answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import AlreadyAnswered, InvalidArguments, NoBuildInSession
from aop.core.roles import Role
from aop.forge.broker.sessions import scope_of
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.clarifications import (
    ContextText,
    Options,
    QuestionText,
    WantedAnswer,
    answer_for_model,
    asked_before,
    limit_text,
    put_clarification,
    the_clarification,
    the_clarification_of_project,
)
from aop.forge.projects.keys import WRITE_SCOPE
from aop.forge.projects.owners import the_project
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.features.questions import QuestionFacts, question_facts, settle_expired, store_answer
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.questions import Question, question_at
from aop.kernel.record.port import Snapshot, Transaction

WAIT_SECONDS = 20.0
"""Hosts give up a call after a minute, or sooner."""
POLL_SECONDS = 0.25

QuestionId = Annotated[str, Meta(pattern="^q[0-9]{1,9}$")]


class AskClarification(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_ask_clarification`."""

    question: QuestionText | None = None
    """One question that no contract answers."""
    context: ContextText | None = None
    """Why it matters."""
    options: Options | None = None
    """Answers to choose from; the user may also let you decide."""
    question_id: QuestionId | None = None
    """Instead of `question`: wait for the answer to this one."""


class Clarification(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    question_id: str
    """Empty if nothing was asked."""
    status: Literal["asked", "answered", "limit_reached"]
    """The state of the question; `limit_reached` if it was not put."""
    text: str
    """The answer, or what to do."""


def ask(call: Call, arguments: AskClarification) -> Outcome:
    """Ask a person, or wait a while for the answer to a question that was asked."""
    if (arguments.question is None) == (arguments.question_id is None):
        raise InvalidArguments("Name `question` to ask, or `question_id` to wait for an answer.")
    if arguments.question_id is not None:
        _wait(call, arguments.question_id)
        question_id = arguments.question_id
        return call.commit(lambda tx: _answered(tx, call, question_id))
    redact = call.kernel.redact
    wanted = WantedAnswer(
        question=redact(arguments.question or ""),
        context=redact(arguments.context or ""),
        options=tuple(map(redact, arguments.options or ())),
    )
    return call.commit(lambda tx: _asked(tx, call, wanted))


def _asked(tx: Transaction, call: Call, wanted: WantedAnswer) -> Clarification:
    cycle, rules = _own_cycle(tx, call), call.kernel.config().policy.forge.build
    known = asked_before(tx, cycle.build_id, wanted)
    if known is not None:
        return _shown(cycle, settle_expired(tx, call, known))
    if cycle.questions >= rules.max_questions:
        return Clarification(build_id=cycle.build_id, question_id="", status="limit_reached", text=limit_text(rules))
    return _shown(cycle, put_clarification(tx, call, cycle, wanted))


def _answered(tx: Transaction, call: Call, question_id: str) -> Clarification:
    cycle = _own_cycle(tx, call)
    return _shown(cycle, settle_expired(tx, call, the_clarification(tx, cycle, question_id)))


def _wait(call: Call, question_id: str) -> None:
    """Return when the question has ended, or after a while."""
    clock = call.kernel.clock
    until = clock.boot_seconds() + WAIT_SECONDS
    while clock.boot_seconds() < until:
        with call.kernel.record.read() as view:
            question = the_clarification(view, _own_cycle(view, call), question_id)
        if not question_at(question, clock.now()).is_open:
            return
        clock.pause(POLL_SECONDS)


def _own_cycle(view: Snapshot, call: Call) -> BuildCycle:
    """Return the cycle of the session's build. Raises: NoBuildInSession, BuildNotBegun, BuildEnded."""
    build_id = scope_of(view, call.principal).build_id
    if build_id is None:
        raise NoBuildInSession("A question belongs to a build, and the session of your token has none.")
    return the_living_cycle(view, build_id, call.principal)


def _shown(cycle: BuildCycle, question: Question) -> Clarification:
    answer = answer_for_model(question)
    again = (
        "The user was asked, and has not answered yet. Call `forge_ask_clarification` with"
        f" `question_id` `{question.question_id}` to wait for the answer."
    )
    return Clarification(
        build_id=cycle.build_id,
        question_id=question.question_id,
        status="asked" if answer is None else "answered",
        text=again if answer is None else answer,
    )


class Clarify(ProjectArguments, frozen=True, kw_only=True):
    question_id: Annotated[str, Meta(min_length=1, max_length=20)]
    """The question, as the event of the build named it."""
    answer: Annotated[str, Meta(min_length=1, max_length=1000)]
    """One of its options, or any other text."""


def clarify(call: Call, arguments: Clarify, tx: Transaction) -> Outcome:
    """Answer a question of the active build of a project, once."""
    project = the_project(tx, arguments.project_id, call.principal)
    question = the_clarification_of_project(tx, project, arguments.question_id)
    answered = store_answer(tx, call, question, call.kernel.redact(arguments.answer))
    return answered if isinstance(answered, AlreadyAnswered) else question_facts(answered)


TOOLS = (
    Tool(
        name="forge_ask_clarification",
        summary="Ask the user one question that no contract answers; sparingly. The build waits for the answer.",
        arguments=AskClarification,
        output=Clarification,
        roles=frozenset({Role.FORGE_BUILDER, Role.SCOUT, Role.CODER}),
        run=ask,
        lean=True,
        mutates=True,
        in_turn=True,
    ),
    Tool(
        name="forge.clarify",
        summary="Answer a question of the active build of a project.",
        arguments=Clarify,
        output=QuestionFacts,
        roles=COORDINATORS,
        run=committed(clarify),
        mutates=True,
        brief=True,
        person_only=True,
        key_scope=WRITE_SCOPE,
    ),
)
