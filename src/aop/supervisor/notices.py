"""Notices: questions, reminders and ends of features that people are notified of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.config.people import InboxRules, NoticeKind
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.questions import Question, reminders_due
from aop.supervisor.board import BoardEntry

LONGEST_TEXT = 1000
LOOK_SECONDS = 2.0
ENDS = {
    Status.READY_TO_MERGE: NoticeKind.READY,
    Status.BLOCKED: NoticeKind.BLOCKED,
    Status.FAILED: NoticeKind.FAILED,
}


class Notice(Struct, frozen=True, kw_only=True):
    """One notification; text of others in it is data."""

    event_id: str
    """The same event is sent once."""
    kind: NoticeKind
    feature_id: FeatureId
    title: str
    text: str
    url: str = ""
    """The address of its row on the pages, which lets nobody in; empty while no server runs."""


class Notifier(Protocol):
    """Sends notices to people."""

    def send(self, notice: Notice) -> None:
        """Queue a notice for every target that has not had it; returns at once, never fails."""


class NoNotifier:
    """Implements `Notifier` without targets."""

    def send(self, notice: Notice) -> None:
        """Do nothing."""


class Attention:
    """Watches the board and sends notices of what needs a person."""

    def __init__(self, gateway: Gateway, notifier: Notifier, tell: Callable[[FeatureId, str], None]) -> None:
        self._gateway = gateway
        self._notifier = notifier
        self._tell = tell
        self._seen: set[str] = set()
        self._entries: Mapping[FeatureId, BoardEntry] = {}
        self._look_at = 0.0

    def look(self, entries: Mapping[FeatureId, BoardEntry]) -> None:
        """Send what is new; unchanged entries are checked for reminders only every few seconds."""
        now = self._gateway.kernel.clock.boot_seconds()
        is_due = now >= self._look_at
        moved = {name: each for name, each in entries.items() if is_due or self._entries.get(name) != each}
        if is_due:
            self._look_at = now + LOOK_SECONDS
        self._entries = entries
        for notice in self._notices(moved):
            if notice.event_id not in self._seen:
                self._seen.add(notice.event_id)
                if notice.kind is NoticeKind.REMINDER:
                    self._tell(notice.feature_id, f"still {notice.text}")
                self._notifier.send(notice)

    def _notices(self, entries: Mapping[FeatureId, BoardEntry]) -> Iterator[Notice]:
        if not entries:
            return
        kernel = self._gateway.kernel
        now, rules = kernel.clock.now(), kernel.config().policy.inbox
        with kernel.record.read() as view:
            for feature_id, entry in entries.items():
                question = view.get(Question, entry.topic) if entry.does == "asks" else None
                if question is not None and question.is_open:
                    yield from question_notices(question, rules, now)
                state = view.get(FeatureState, feature_id) if entry.does == "ended" else None
                if state is not None and state.status in ENDS:
                    yield end_notice(state)


def question_notices(question: Question, rules: InboxRules, now: datetime) -> Iterator[Notice]:
    """Yield the notice of an open question, and the newest reminder that is due."""
    answers = "|".join(question.choices) or "TEXT"
    asked = Notice(
        event_id=f"question:{question.question_id}",
        kind=NoticeKind.QUESTION,
        feature_id=question.feature_id,
        title=f"{question.feature_id} needs a person: {question.gate}",
        text=_one_line(f"asks: {question.text} (aop answer {question.question_id} {answers})"),
    )
    yield asked
    number = reminders_due(rules, question.asked_at, now)
    if number:
        title = f"{question.feature_id} still needs a person: {question.gate}"
        yield replace(asked, event_id=f"{asked.event_id}:reminder:{number}", kind=NoticeKind.REMINDER, title=title)


def end_notice(state: FeatureState) -> Notice:
    """Return the notice of a feature that has ended."""
    kind = ENDS[state.status]
    what = state.tree[:16] if kind is NoticeKind.READY else f"v{state.version}"
    how = f"aop review {state.feature_id}, and then aop merge {state.feature_id}"
    return Notice(
        event_id=f"{kind}:{state.feature_id}:{what}",
        kind=kind,
        feature_id=state.feature_id,
        title=f"{state.feature_id} is {state.status.replace('_', ' ')}",
        text=how if kind is NoticeKind.READY else _one_line(state.status_reason),
    )


def row_path(notice: Notice) -> str:
    """Return the row of the inbox page that a notice is about."""
    if notice.kind is NoticeKind.READY:
        return f"/#row-approval-{notice.feature_id}"
    if notice.kind in (NoticeKind.BLOCKED, NoticeKind.FAILED):
        return f"/#row-stuck-{notice.feature_id}"
    return f"/#row-question-{notice.event_id.split(':')[1]}"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))[:LONGEST_TEXT]
