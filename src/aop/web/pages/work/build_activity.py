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

_SENTENCES: Mapping[str, str] = {
    "build_began": "The build began on {branch}, at {baseline_sha:.8}",
    _ASKED: "Asks: {question}",
    _ANSWERED: "↳ You answered: {answer}",
    "build_committed": "Committed {commit:.8}",
    "build_error_resolved": "Error {error_id} is resolved, {method}: {summary}",
    "build_log": "{message}",
    "build_sealed": "Sealed: {verdict}, {score} of 100",
    "build_status_changed": "Status: {old}, then {new}",
    "command_ran": "{outcome}: {command}",
    "contract_fetched": "The {role} reads the contract {contract_type}",
    "file_audited": "Audit of {path}: {verdict}",
    "file_generated": "File {path}: {change}",
    "fix_attempt_result": "Fix {attempt}: {fix_summary}",
    "gates_ran": "Gates, {mode}: {verdict} on tree {tree:.8}",
    "patch_applied": "A patch led to tree {tree:.8}",
    "phase_complete": "Phase {phase} is complete: {name}",
    "plan_complete": "Plan of phase {phase}: {tasks}",
    "sign_off_refused": "Phase {phase} was not signed off: {missing}",
    "turn_taken": "The {worker} took a turn, {provider}",
}
"""How the entries are told; what lacks a field, or is not listed, is told with all its fields."""


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
    if kind == "cost_ticker":
        return f"Cost so far: {_cost(payload)}"
    if kind == "build_error_tracked":
        return f"Error {payload['error_id']}, seen {count(payload['occurrence_count'], 'time')}: {payload['message']}"
    if kind == "worktree_quarantined":
        return f"Set {count(len(payload['paths']), 'file')} aside that no commit has"
    told = {name: _word(value) for name, value in payload.items() if value not in (None, "", [], {})}
    try:
        return _SENTENCES[kind].format_map(told)
    except KeyError:
        return f"{kind.replace('_', ' ')} {_facts(told)}".strip()


def _word(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _facts(told: Mapping[str, str]) -> str:
    facts = " ".join(f"{name}={text}" for name, text in told.items() if name not in ("build_id", "project_id"))
    return facts if len(facts) <= LONGEST_FACTS else f"{facts[:LONGEST_FACTS]}..."


def _cost(payload: Mapping[str, Any]) -> str:
    """Say a cost; what turns did not report is unknown."""
    unknown = payload["unknown_turns"]
    if unknown and not payload["cost_usd"]:
        return f"unknown, {count(unknown, 'turn')}"
    return f"{payload['cost_usd']:.2f} USD" + (f" and {count(unknown, 'turn')} unknown" if unknown else "")


def _tone(kind: str, payload: Mapping[str, Any]) -> str:
    if kind in ("build_failed", "cost_exceeded", "build_error_tracked"):
        return "bad"
    if kind in (_ASKED, "build_paused", "cost_warning", "sign_off_refused") or payload.get("level") == "warning":
        return "warn"
    return "bad" if payload.get("level") == "error" else ""
