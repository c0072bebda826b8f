"""History figures of a seal: reads before writes, questions and STOPs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from msgspec import Struct

from aop.forge.broker.fetches import FETCHED
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.documents import StopCode
from aop.kernel.record.documents.questions import TIME_LIMIT, Question, question_at
from aop.kernel.record.port import Event, JournalEntry

_WRITES = ("file_generated", "patch_applied")
_PHASE_ENDS = "phase_complete"
_STOPS = frozenset(get_args(StopCode))


class HistoryFigures(Struct, frozen=True, kw_only=True):
    """The figures of the work on a build."""

    phases_with_writes: int
    phases_read_first: int
    """Phases in which a contract was read before the first file was written."""
    questions: int
    answered_by_people: int
    stops: int
    evidence: tuple[str, ...] = ()
    """The first write of each phase, by its number in the journal."""


def history_figures(subject: AuditSubject) -> HistoryFigures:
    """Return the figures of a build's history."""
    firsts = tuple(_first_writes(subject.events))
    now = subject.call.kernel.clock.now()
    asked = [
        question_at(each, now)
        for each in subject.view.all(Question)
        if each.feature_id == subject.state.feature_id and each.gate == "question"
    ]
    return HistoryFigures(
        phases_with_writes=len(firsts),
        phases_read_first=sum(was_read for _, was_read in firsts),
        questions=len(asked),
        answered_by_people=sum(each.answer is not None and each.answered_by != TIME_LIMIT for each in asked),
        stops=sum(_is_stop(entry.event) for entry in subject.events),
        evidence=tuple(f"journal {seq}" for seq, _ in firsts),
    )


def _first_writes(events: Iterable[JournalEntry]) -> Iterable[tuple[int, bool]]:
    """Yield the first write of each phase, and whether a contract was read in the phase before it."""
    has_read = has_written = False
    for entry in events:
        kind = entry.event.kind
        if kind == _PHASE_ENDS:
            has_read = has_written = False
        elif kind == FETCHED:
            has_read = True
        elif kind in _WRITES and not has_written:
            has_written = True
            yield entry.seq, has_read


def _is_stop(event: Event) -> bool:
    return event.kind == "build_paused" and event.payload.get("code") in _STOPS
