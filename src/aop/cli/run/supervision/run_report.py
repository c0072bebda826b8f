"""Report: the result of a run, as text, JSON and exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.screens.tables import UNLIMITED, wrap_beside
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.record.documents.features import Status
from aop.kernel.tools.report.standings import answer_command
from aop.supervisor.board import Board, BoardEntry
from aop.supervisor.policy.collisions import NextStep, next_steps
from aop.supervisor.supervisor import Outlook, outlook_of
from aop.wiring.build import App

DASHBOARD_SECONDS = 1.0
NARROWEST_WHY = 24


class RunFacts(Struct, frozen=True, kw_only=True):
    """The features and questions at the end of a run, read from the record."""

    outlook: Outlook
    features: tuple[Mapping[str, Any], ...]
    questions: tuple[Mapping[str, Any], ...]
    next_steps: tuple[NextStep, ...]
    changed: bool
    seconds: float
    pending_at_start: Mapping[str, Any]
    """The operations that were pending when the run began."""


class FeatureCounts:
    """Prints the number of features in each status when it changes, at most once a second."""

    def __init__(self, app: App, terminal: Terminal) -> None:
        self._app = app
        self._terminal = terminal
        self._look_at = 0.0
        self._printed = ""

    def __call__(self) -> None:
        """Print the numbers if they have changed."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + DASHBOARD_SECONDS
        counts = self._app.gateway.call(self._app.person, "report.dashboard", {}).data["counts"]
        line = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        if line and line != self._printed:
            self._terminal.say(f"features: {line}")
            self._printed = line


def read_facts(app: App, board: Board, *, changed: bool, seconds: float) -> RunFacts:
    """Read the result of a run from the record."""
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
        reason = f"Waits until merged: {', '.join(entry.others)}." if entry.others else ""
        row = {
            "feature_id": feature_id,
            "status": "not_begun",
            "status_reason": reason,
            "gates": {},
            "next_command": "",
        }
    names = ("feature_id", "status", "status_reason", "gates", "next_command")
    return {**{name: row[name] for name in names}, "does": entry.does, "error": entry.outcome.get("error")}


def exit_code(facts: RunFacts) -> Exit:
    """Return the exit code of a run."""
    found = facts.outlook
    if found.asks:
        return Exit.NEEDS_PERSON
    if found.failed:
        return Exit.FAILED
    if found.waits or found.rests:
        return Exit.WAITING
    return Exit.OK if facts.changed else Exit.NOT_PROVEN


def print_facts(facts: RunFacts, terminal: Terminal) -> Exit:
    """Print the result of a run, and return its exit code."""
    code = exit_code(facts)
    if terminal.json:
        return terminal.result(_as_json(facts, code), "", code=code)
    _print_features(facts.features, terminal)
    for question in facts.questions:
        text = visible(" ".join(question["text"].split()))
        terminal.say(f"{question['question_id']} ({question['feature_id']}): {text}")
        answer = answer_command(question["question_id"], question["choices"])
        terminal.say(f"  Answer with: {answer}, then continue with: aop resume --wait")
    for row in facts.features:
        if row["does"] == "ended" and row["status"] in (Status.FAILED, Status.BLOCKED):
            terminal.say(f"{row['feature_id']} is {row['status']}; when its cause is removed: {row['next_command']}")
    for step in facts.next_steps:
        unblocks = f" (unblocks {', '.join(step.unblocks)})" if step.unblocks else ""
        terminal.say(f"{step.feature_id} is ready for review{unblocks}: {', '.join(step.commands)}")
    if code is Exit.NOT_PROVEN:
        done = "every feature was already done." if facts.features else "there is no unfinished run. Start one: aop run"
        terminal.say(f"Nothing changed: {done}")
    return code


def _print_features(rows: Sequence[Mapping[str, Any]], terminal: Terminal) -> None:
    """Print each feature with its status and the reason for it, below each other."""
    name, status = (max((len(row[key]) for row in rows), default=0) for key in ("feature_id", "status"))
    for row in rows:
        why = row["error"]["message"] if row["error"] else row["status_reason"]
        why = "Paused. Continue with: aop resume" if row["does"] == "rests" else visible(" ".join(why.split()))
        begin = f"{row['feature_id']:<{name}}  {row['status']:<{status}}  "
        room = terminal.columns if terminal.is_screen else UNLIMITED
        terminal.text("\n".join(wrap_beside(begin, why, room, narrowest=NARROWEST_WHY)))


def _as_json(facts: RunFacts, code: Exit) -> dict[str, Json]:
    return {
        "exit": int(code),
        "changed": facts.changed,
        "seconds": facts.seconds,
        "pending_at_start": dict(facts.pending_at_start),
        "features": [dict(row) for row in facts.features],
        "questions": [dict(question) for question in facts.questions],
        "next_steps": [msgspec.to_builtins(step) for step in facts.next_steps],
    }
