"""Build activity: what happened in a build, line by line, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.redaction.redactor import mask_json
from aop.core.text.counts import count
from aop.kernel.record.port import JournalEntry
from aop.web.pages.frame import Visit

MOST_ENTRIES = 200
LONGEST_FACTS = 300
_ANSWERED = "build_clarification_resolved"
_ASKED = "build_clarification_request"
_REPEATED = frozenset({"question_asked", "question_answered"})
"""Entries of the inbox, which another entry of the build repeats."""


class ActivityLine(Struct, frozen=True, kw_only=True):
    """One line of the activity of a build."""

    seq: int
    at: str
    actor: str
    """The part of AOP, the model or the person that it comes from."""
    text: str
    tone: str
    """`warn` and `bad` stand out; empty for all else."""


def activity_of(visit: Visit, build_id: str) -> tuple[ActivityLine, ...]:
    """Return the newest lines; a question and its answer stand there once."""
    with visit.door.kernel.record.read() as view:
        entries = list(view.journal(feature_id=FeatureId(build_id), newest=MOST_ENTRIES))
    mask = visit.door.kernel.redact.mask_secrets
    return tuple(reversed([_line(each, mask) for each in _told_once(entries)]))


def _told_once(entries: Sequence[JournalEntry]) -> Iterator[JournalEntry]:
    """Leave out what says the same as another entry."""
    for number, entry in enumerate(entries):
        after = entries[number + 1].event if number + 1 < len(entries) else None
        if after is not None and entry.event.kind == "build_log" and after.kind in (_ASKED, _ANSWERED):
            said = after.payload.get("question" if after.kind == _ASKED else "answer")
            if said == entry.event.payload.get("message"):
                continue
        if entry.event.kind not in _REPEATED:
            yield entry


def _line(entry: JournalEntry, mask: Callable[[str], str]) -> ActivityLine:
    event = entry.event
    payload: Mapping[str, Any] = msgspec.to_builtins(mask_json(dict(event.payload), mask))
    source, tone = str(payload.get("source", event.actor)), _tone(event.kind, payload)
    return ActivityLine(seq=entry.seq, at=event.at, actor=source, text=_text(event.kind, payload), tone=tone)


def _text(kind: str, payload: Mapping[str, Any]) -> str:
    if kind == "build_log":
        return str(payload["message"])
    if kind == _ANSWERED:
        return f"↳ You answered: {payload['answer']}"
    if kind == _ASKED:
        return f"Asks: {payload['question']}"
    if kind == "build_error_tracked":
        return f"Error {payload['error_id']}, seen {count(payload['occurrence_count'], 'time')}: {payload['message']}"
    told = {name: value for name, value in payload.items() if value and name not in ("build_id", "project_id")}
    facts = " ".join(
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in told.items()
    )
    shown = facts if len(facts) <= LONGEST_FACTS else f"{facts[:LONGEST_FACTS]}..."
    return f"{kind.replace('_', ' ')} {shown}".strip()


def _tone(kind: str, payload: Mapping[str, Any]) -> str:
    if kind in ("build_failed", "cost_exceeded", "build_error_tracked"):
        return "bad"
    if kind in (_ASKED, "build_paused", "cost_warning", "sign_off_refused") or payload.get("level") == "warning":
        return "warn"
    return "bad" if payload.get("level") == "error" else ""
