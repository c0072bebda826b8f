"""`aop stop`: end the supervisor, or the work on one feature."""

from __future__ import annotations

import argparse

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.supervisor_lease import leases_of, stop_supervisor


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="only this feature (default: the supervisor)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Stop one feature, or ask the supervisor to end, and wait until it has."""
    if arguments.feature is not None:
        with open_app(arguments) as app:
            answer = call_tool(app, "feature.stop", {"feature_id": arguments.feature})
        again = f"Start it again with: aop retry {arguments.feature}"
        return terminal.answer(answer, lambda data: terminal.say(f"{arguments.feature} was {data['was']}. {again}"))
    with open_app(arguments) as app:
        stopped = stop_supervisor(leases_of(app.root, app.record))
    if stopped is None:
        message = "No supervisor is running in this repository."
        return terminal.done({"stopped": None}, message, code=Exit.NOT_PROVEN)
    return terminal.done({"stopped": stopped.pid}, f"Stopped {stopped.name}. Continue with: aop resume")
