"""`aop retry`: a failed or blocked feature begins again where it was, with fresh turns."""

from __future__ import annotations

import argparse

from aop.cli.run.supervision.live import await_taken, running_supervisor
from aop.cli.run.supervision.supervise import agents_before, order_of, supervised, supervising_arguments
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    supervising_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Hand it to the supervisor that is running, or supervise it."""
    with open_app(arguments) as app:
        if running_supervisor(app) is not None:
            return _handed_over(app, arguments.feature, terminal)
        order = order_of(app, app.settings, arguments, before=agents_before(app))
        _retried(app, arguments.feature)
        return supervised(app, app.settings, order, arguments, terminal)


def _handed_over(app: App, feature: str, terminal: Terminal) -> int:
    answer = _retried(app, feature)
    await_taken(app, [feature])
    if terminal.json:
        terminal.object(answer.as_json())
    else:
        begins = "waits as before" if answer.data["status"] == "blocked" else f"begins again: {answer.data['status']}"
        terminal.say(f"{feature} was {answer.data['was']}, and {begins}.")
    return Exit.OK


def _retried(app: App, feature: str) -> Envelope:
    return call_tool(app, "feature.retry", {"feature_id": feature})
