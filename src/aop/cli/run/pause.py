"""`aop pause`: start no new turn or gate, for one feature or all."""

from __future__ import annotations

import argparse

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="only this feature (default: all)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Record the pause; every supervisor checks it before a turn and before a gate."""
    with open_app(arguments) as app:
        answer = call_tool(app, "run.pause", {"feature_id": arguments.feature})
    name = arguments.feature
    what = f"`{name}` after its current step" if name else "all features after their current steps"
    message = f"Pausing {what}. Continue with: {f'aop resume {name}' if name else 'aop resume'}"
    code = Exit.OK if answer.data["changed"] else Exit.NOT_PROVEN
    return terminal.answer(answer, lambda _data: terminal.say(message), code=code)
