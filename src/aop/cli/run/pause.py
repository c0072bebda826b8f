"""`aop pause`: no new turn and no new gate begins, of one feature or of all; `aop resume` takes it back."""

from __future__ import annotations

import argparse

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="only this one (default: all, and those to come)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Note it in the record, where every supervisor looks before a turn and before a gate."""
    with open_app(arguments) as app:
        answer = call_tool(app, "run.pause", {"feature_id": arguments.feature})
    if terminal.json:
        terminal.object(answer.as_json())
    else:
        what = f"`{arguments.feature}` rests" if arguments.feature else "Everything rests"
        terminal.say(f"{what} when what runs now has ended. `aop resume` takes it back.")
    return Exit.OK if answer.data["changed"] else Exit.NOT_PROVEN
