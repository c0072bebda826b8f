"""What a run came to: for people, for programs, and as an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.visibletext import visible
from aop.supervisor.board import Board, Standing
from aop.supervisor.supervising import Outlook, outlook
from aop.wiring import App


class RunFacts(Struct, frozen=True, kw_only=True):
    """Where everything is when a run ends, read back from the record."""

    outlook: Outlook
    features: tuple[Mapping[str, Any], ...]
    questions: tuple[Mapping[str, Any], ...]
    changed: bool
    seconds: float


def report(app: App, board: Board, *, changed: bool, seconds: float) -> RunFacts:
    """Read back what the features of a run are now."""
    standings = board.standings()
    rows = app.gateway.call(app.person, "report.dashboard", {}).data["features"]
    questions = app.gateway.call(app.person, "inbox.list", {}).data["questions"]
    known = {row["feature_id"]: row for row in rows}
    return RunFacts(
        outlook=outlook(board),
        features=tuple(_row(known.get(name), name, standing) for name, standing in sorted(standings.items())),
        questions=tuple(question for question in questions if question["feature_id"] in standings),
        changed=changed,
        seconds=round(seconds, 2),
    )


def _row(row: Mapping[str, Any] | None, feature_id: FeatureId, standing: Standing) -> dict[str, Any]:
    if row is None:
        reason = f"It waits until these are merged: {', '.join(standing.others)}." if standing.others else ""
        row = {"feature_id": feature_id, "status": "not_begun", "status_reason": reason, "gates": {}}
    names = ("feature_id", "status", "status_reason", "gates")
    return {**{name: row[name] for name in names}, "does": standing.does, "error": standing.outcome.get("error")}


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
    if code is Exit.NOT_PROVEN:
        terminal.say("Nothing changed: all of them were there already.")


def _as_json(facts: RunFacts, code: Exit) -> dict[str, Json]:
    return {
        "ok": code is Exit.OK,
        "exit": int(code),
        "changed": facts.changed,
        "seconds": facts.seconds,
        "features": [dict(row) for row in facts.features],
        "questions": [dict(question) for question in facts.questions],
    }
