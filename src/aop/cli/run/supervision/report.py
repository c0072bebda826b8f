"""What a run came to: for people, for programs, and as an exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.record.documents.features import Status
from aop.supervisor.board import Board, BoardEntry
from aop.supervisor.policy.collisions import NextStep, next_steps
from aop.supervisor.supervisor import Outlook, outlook_of
from aop.wiring.build import App

DASHBOARD_SECONDS = 1.0


class RunFacts(Struct, frozen=True, kw_only=True):
    """Where everything is when a run ends, read back from the record."""

    outlook: Outlook
    features: tuple[Mapping[str, Any], ...]
    questions: tuple[Mapping[str, Any], ...]
    next_steps: tuple[NextStep, ...]
    changed: bool
    seconds: float
    pending_at_start: Mapping[str, Any]
    """What was on its way when the run began."""


class FeatureCounts:
    """Tells how many features are where, when that has changed; at most every so often."""

    def __init__(self, app: App, terminal: Terminal) -> None:
        self._app = app
        self._terminal = terminal
        self._look_at = 0.0
        self._told = ""

    def __call__(self) -> None:
        """Look, if it is time, and tell what is new."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + DASHBOARD_SECONDS
        counts = self._app.gateway.call(self._app.person, "report.dashboard", {}).data["counts"]
        line = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        if line and line != self._told:
            self._terminal.say(f"features: {line}")
            self._told = line


def report(app: App, board: Board, *, changed: bool, seconds: float) -> RunFacts:
    """Read back what the features of a run are now."""
    entries = board.entries()
    dashboard = app.gateway.call(app.person, "report.dashboard", {}).data
    rows = dashboard["features"]
    questions = app.gateway.call(app.person, "inbox.list", {}).data["questions"]
    known = {row["feature_id"]: row for row in rows}
    ready = [name for name in entries if known.get(name, {}).get("status") == Status.READY_TO_MERGE]
    waits_for = {name: entry.others for name, entry in entries.items() if entry.does == "waits"}
    return RunFacts(
        outlook=outlook_of(board),
        features=tuple(_row(known.get(name), name, entry) for name, entry in sorted(entries.items())),
        questions=tuple(question for question in questions if question["feature_id"] in entries),
        next_steps=next_steps(ready, waits_for),
        changed=changed,
        seconds=round(seconds, 2),
        pending_at_start=dashboard["newest_run"]["pending"],
    )


def _row(row: Mapping[str, Any] | None, feature_id: FeatureId, entry: BoardEntry) -> dict[str, Any]:
    if row is None:
        reason = f"It waits until these are merged: {', '.join(entry.others)}." if entry.others else ""
        row = {"feature_id": feature_id, "status": "not_begun", "status_reason": reason, "gates": {}}
    names = ("feature_id", "status", "status_reason", "gates")
    return {**{name: row[name] for name in names}, "does": entry.does, "error": entry.outcome.get("error")}


def exit_code(facts: RunFacts) -> Exit:
    """Return what a script can act on."""
    found = facts.outlook
    if found.asks:
        return Exit.NEEDS_PERSON
    if found.failed:
        return Exit.FAILED
    if found.waits or found.rests:
        return Exit.WAITING
    return Exit.OK if facts.changed else Exit.NOT_PROVEN


def show(facts: RunFacts, terminal: Terminal) -> None:
    """Print it."""
    code = exit_code(facts)
    if terminal.json:
        terminal.object(_as_json(facts, code))
        return
    for row in facts.features:
        why = row["error"]["message"] if row["error"] else row["status_reason"]
        why = "It is paused: aop resume" if row["does"] == "rests" else why
        terminal.text(f"{row['feature_id']}  {row['status']}  {why}".rstrip())
    for question in facts.questions:
        text = visible(" ".join(question["text"].split()))
        terminal.say(f"{question['question_id']} ({question['feature_id']}): {text}")
        answer = f"aop answer {question['question_id']} {'|'.join(question['choices']) or 'TEXT'}"
        terminal.say(f"  Answer it: {answer}, and then go on: aop resume --wait")
    for step in facts.next_steps:
        waiting = f" ({', '.join(step.unblocks)} waits for it)" if step.unblocks else ""
        terminal.say(f"{step.feature_id} is ready for you{waiting}: {', '.join(step.commands)}")
    if code is Exit.NOT_PROVEN:
        terminal.say("Nothing changed: all of them were there already.")


def _as_json(facts: RunFacts, code: Exit) -> dict[str, Json]:
    return {
        "ok": code is Exit.OK,
        "exit": int(code),
        "changed": facts.changed,
        "seconds": facts.seconds,
        "pending_at_start": dict(facts.pending_at_start),
        "features": [dict(row) for row in facts.features],
        "questions": [dict(question) for question in facts.questions],
        "next_steps": [msgspec.to_builtins(step) for step in facts.next_steps],
    }
