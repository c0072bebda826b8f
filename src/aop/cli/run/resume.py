"""`aop resume`: let it go on. Takes pauses back, and goes on with what a stopped or killed run left on its way."""

from __future__ import annotations

import argparse

from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.cli.run.supervision.live import running_supervisor
from aop.cli.run.supervision.supervise import agents_before, order_of, supervised, supervising_arguments
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import SupervisorRunning
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents.runs import Pause


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="take back the pause of this one (default: all)")
    supervising_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Take pauses back; supervise what is left over, unless a supervisor does that already."""
    with open_app(arguments) as app:
        holder = running_supervisor(app)
        order = order_of(app, app.settings, arguments, before=agents_before(app)) if holder is None else None
        answer = call_tool(app, "run.resume", {"feature_id": arguments.feature})
        if order is not None:
            return supervised(app, app.settings, order, arguments, terminal)
        return _goes_on(holder, answer, terminal)


def _goes_on(holder: LeaseHolder | None, answer: Envelope, terminal: Terminal) -> int:
    pid = holder.pid if holder else None
    if not answer.data["resumed"]:
        raise SupervisorRunning(f"Nothing was paused, and a supervisor is at work: process {pid}.", pid=pid)
    if terminal.json:
        terminal.object(answer.as_json())
    else:
        resumed = ["everything" if name == Pause.all else name for name in answer.data["resumed"]]
        terminal.say(f"Process {pid} goes on with: {', '.join(resumed)}")
    return Exit.OK
