"""`aop forge note`: read or replace the note on a project."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.forge.rows import print_text
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="?",
        help="the new note, which replaces the old one; `-` reads standard input (default: print the note)",
    )


def note(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the note, or replace it."""
    which = {"project_id": arguments.project}
    if arguments.text is None:
        with open_app(arguments, to_read=True) as app:
            answer = call_tool(app, "forge.note_get", which)
        return terminal.answer(answer, lambda data: _show(data, terminal))
    content = terminal.read_all() if arguments.text == "-" else arguments.text
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.note_put", {**which, "content": content})
    return terminal.answer(answer, lambda data: _show_stored(data, terminal))


def _show(data: Mapping[str, Any], terminal: Terminal) -> None:
    if data["content"]:
        print_text(f"{data['content'].rstrip()}\n", terminal)
    else:
        terminal.say(f"No note yet. Write one with: aop forge note {data['project_id']} TEXT")


def _show_stored(data: Mapping[str, Any], terminal: Terminal) -> None:
    said = "Stored." if data["content"] else "Emptied."
    terminal.say(f"{said} A running build is told before its next turn.")


ACTIONS: Mapping[str, Action] = {"note": Action(_declare, note)}
