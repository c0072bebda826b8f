"""Standings: who works on a feature, why it waits, and a person's next command."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Literal, Self

from msgspec import UNSET, Struct, UnsetType

from aop.core.text.counts import count
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.documents.usage import OpenTurn

ON_ITS_WAY = frozenset({Status.PLANNING, Status.BUILDING, Status.QA})


class TurnInProgress(Struct, frozen=True, kw_only=True, gc=False):
    """A turn that has begun and not ended; without a live supervisor its process was killed."""

    role: str
    """The role that the agent works in."""
    provider: str
    """The coding agent."""
    model: str | None
    """Its model; null if unknown."""
    since: str
    """When the turn began, in UTC."""
    on_worker: str | UnsetType = UNSET
    """The worker of another machine that takes it; left out where none does."""

    @classmethod
    def of(cls, turn: OpenTurn) -> Self:
        """Return a stored turn as answers show it."""
        return cls(
            role=turn.worker,
            provider=turn.provider,
            model=turn.model,
            since=turn.began_at,
            on_worker=turn.on_worker,
        )


class GatesInProgress(Struct, frozen=True, kw_only=True, gc=False):
    """A gate run that has begun and not ended; its process is alive."""

    mode: str
    step: str
    """The newest progress line: which step of how many."""
    since: str
    """When the run began, in UTC."""


class Standing(Struct, frozen=True, kw_only=True, gc=False):
    """Why a feature does not move, and the command that moves it."""

    waits: str = ""
    """The reason, for a person to read; empty if nothing holds it."""
    command: str = ""
    """The next command of a person; empty if none is needed."""


class Situation(Struct, frozen=True, kw_only=True, gc=False):
    """The facts that a standing is decided from."""

    feature_id: str
    status: Status
    reason: str = ""
    """The reason of its status, as the record has it."""
    blocked_by: tuple[str, ...] = ()
    asks: tuple[Question, ...] = ()
    out_of_time: tuple[Question, ...] = ()
    conflicts: tuple[str, ...] = ()
    """The files in which it conflicts with the base branch."""
    pause: Literal["", "feature", "all"] = ""
    provider_wait: str = ""
    """Until when, and why, it waits for the provider of its model; empty if it does not."""


def standing_of(now: Situation) -> Standing:
    """Decide why a feature waits; the first reason that a person can remove comes first."""
    if now.status is Status.MERGED:
        return Standing()
    if now.asks:
        return _standing_of_question(now.asks)
    if now.out_of_time:
        names = _names(question.question_id for question in now.out_of_time)
        return Standing(waits=f"{names} was not answered in time", command="aop resume")
    if now.pause and now.status in ON_ITS_WAY:
        return Standing(
            waits="Paused", command=f"aop resume {now.feature_id}" if now.pause == "feature" else "aop resume"
        )
    if now.provider_wait and now.status in ON_ITS_WAY:
        return Standing(waits=now.provider_wait, command=f"aop resume {now.feature_id}")
    if now.status is Status.READY_TO_MERGE:
        return _standing_when_ready(now)
    if now.blocked_by and now.status is not Status.FAILED:
        return Standing(waits=now.reason or f"Waits for {_names(now.blocked_by)}")
    is_stuck = now.status in (Status.BLOCKED, Status.FAILED)
    reason = now.reason or (_conflict(now) if now.conflicts else "")
    return Standing(waits=reason, command=f"aop retry {now.feature_id}" if is_stuck else "")


def _standing_when_ready(now: Situation) -> Standing:
    if now.conflicts:
        return Standing(waits=_conflict(now), command=f"aop rebase {now.feature_id} --resolve")
    return Standing(waits=now.reason or "Ready for review", command=f"aop review {now.feature_id}")


def _conflict(now: Situation) -> str:
    return f"Conflicts with the base branch: {_names(now.conflicts)}"


def answer_command(question_id: str, choices: Iterable[str]) -> str:
    """Return the command that answers a question."""
    return f"aop answer {question_id} {'|'.join(choices) or 'TEXT'}"


def features_in_reason(reason: str, others: AbstractSet[str]) -> tuple[str, ...]:
    """Return the other features that the reason of a block names; it ends when they are out of the way."""
    return tuple(sorted({name for name in reason.split("`")[1::2] if name in others}))


def _standing_of_question(asks: tuple[Question, ...]) -> Standing:
    first, others = asks[0], len(asks) - 1
    more = f" (and {count(others, 'more question')}: aop inbox)" if others else ""
    text = " ".join(first.text.split())
    return Standing(
        waits=f"{first.question_id}: {text}{more}", command=answer_command(first.question_id, first.choices)
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
