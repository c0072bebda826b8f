"""`aop inbox`: the questions and approvals that wait for a person."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from aop.cli.screens.overview import Overview, frame_lines, read_overview
from aop.cli.screens.styles import Screen, add_colour_argument, screen_of
from aop.cli.screens.tables import Cell, Column, command_cell, table
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.clock import age
from aop.core.text.counts import count
from aop.core.text.visible import visible, visible_name
from aop.kernel.tools.report.standings import answer_command

COLUMNS = (
    Column(title="ID"),
    Column(title="FEATURE", shrinks=True),
    Column(title="KIND"),
    Column(title="ASKED"),
    Column(title="QUESTION"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--answered", action="store_true", help="list answered questions too")
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the questions, oldest first."""
    screen = screen_of(terminal, arguments.color, os.environ)
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "inbox.list", {"answered": arguments.answered})
        overview = read_overview(app)
    empty = "The inbox is empty: nothing waits for a person. Look at the features with: aop status"
    return terminal.result(answer.data, "\n".join(_lines(answer.data, overview, screen)), empty=empty)


def _lines(inbox: Mapping[str, Any], overview: Overview, screen: Screen) -> list[str]:
    rows = [_question_row(question, overview.now) for question in inbox["questions"]]
    rows += [_conflict_row(conflict, overview.now) for conflict in inbox["conflicts"]]
    rows += [_approval_row(approval, overview.now) for approval in inbox["approvals"]]
    rows += [_wait_row(wait) for wait in inbox["waits"]]
    if not rows:
        return []
    is_open = [question["answer"] is None and not question["closed_because"] for question in inbox["questions"]]
    waiting = f"{count(sum(is_open), 'open question')}, {count(len(inbox['approvals']), 'approval')}"
    if inbox["conflicts"]:
        waiting = f"{waiting}, {count(len(inbox['conflicts']), 'conflict')}"
    return [*frame_lines(overview, [waiting], screen), "", *table(COLUMNS, rows, screen.width, screen.paint)]


def _question_row(question: Mapping[str, Any], now: datetime) -> list[Cell]:
    return [
        Cell(question["question_id"], "bold"),
        Cell(question["feature_id"]),
        Cell(question["gate"]),
        Cell(age(question["asked_at"], now), "dim"),
        Cell(_line(question["text"]), "", tuple(_phrases(question, now))),
    ]


def _phrases(question: Mapping[str, Any], now: datetime) -> Iterator[Cell]:
    if question["answer"] is not None:
        who = f"{question['answered_by']}, {age(question['answered_at'], now)}"
        yield Cell(f"{_line(who)}: {_line(question['answer'])}", "green")
    elif question["closed_because"]:
        yield Cell(_line(question["closed_because"]), "dim")
    else:
        yield from _others(question["features"])
        yield from _offered(question["detail"])
        if question["due_at"]:
            then = _line(question["default"] or "the feature is blocked")
            yield Cell(f"Until {question['due_at']}, then: {then}", "yellow")
        yield command_cell(answer_command(question["question_id"], question["choices"]))


def _offered(detail: Mapping[str, Any]) -> Iterator[Cell]:
    """Show why a build asks, and the answers that it offers; any other text is an answer, too."""
    context, options = detail.get("context"), detail.get("options")
    if isinstance(context, str) and context:
        yield Cell(_line(context), "dim")
    if isinstance(options, list) and options:
        yield Cell(f"Options: {' | '.join(_line(str(each)) for each in options)}")


def _conflict_row(conflict: Mapping[str, Any], now: datetime) -> list[Cell]:
    paths = ", ".join(map(visible_name, conflict["paths"])) or "names that moved"
    return [
        Cell("-"),
        Cell(conflict["feature_id"]),
        Cell("conflict"),
        Cell(age(conflict["since"], now), "dim"),
        Cell(f"Conflicts with the base branch: {paths}", "yellow", tuple(map(command_cell, conflict["commands"]))),
    ]


def _approval_row(approval: Mapping[str, Any], now: datetime) -> list[Cell]:
    return [
        Cell("-"),
        Cell(approval["feature_id"]),
        Cell("approval"),
        Cell(age(approval["since"], now), "dim"),
        Cell("Ready to merge", "green", tuple(map(command_cell, approval["commands"]))),
    ]


def _wait_row(wait: Mapping[str, Any]) -> list[Cell]:
    first, *others = wait["features"]
    phrases = (*_others(others), command_cell(f"aop resume {first}"))
    return [*(Cell("-"), Cell(first), Cell("wait"), Cell("-")), Cell(_line(wait["reason"]), "yellow", phrases)]


def _others(features: Sequence[str]) -> Iterator[Cell]:
    """Name the other features that wait for the same."""
    if features:
        yield Cell(f"Also: {', '.join(features)}", "dim")


def _line(text: str) -> str:
    """Return foreign text as one line, without characters that steer a terminal."""
    return visible(" ".join(text.split()))
