"""`aop resume`: end pauses, and continue unfinished work of earlier runs."""

from __future__ import annotations

import argparse
import os

from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.adapters.storage.record.choice import WORKER
from aop.cli.run.supervision.arguments import add_supervision_arguments
from aop.cli.run.supervision.supervise import plan_of, start_run
from aop.cli.run.supervision.worker_lead import lead_for_worker
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import SupervisorRunning
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents.runs import Pause
from aop.wiring.build import App
from aop.wiring.supervisor_lease import lease_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="end only the pause of this feature")
    add_supervision_arguments(parser)
    parser.add_argument("--standby", action="store_true", help="wait until no other supervisor leads, then lead")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """End pauses; supervise the unfinished features unless a supervisor is running. A worker's process only leads."""
    if worker := os.environ.get(WORKER):
        return lead_for_worker(arguments, worker, terminal)
    with open_app(arguments) as app:
        holder = None if arguments.standby else lease_holder(app.root, app.record)
        if holder is not None:
            return _report_resumed(holder, _end_pauses(app, arguments.feature), terminal)
        plan = plan_of(app, arguments)
        return start_run(
            app,
            plan,
            arguments,
            terminal,
            before=lambda: _end_pauses(app, arguments.feature),
            stands_by=arguments.standby,
        )


def _end_pauses(app: App, feature: str | None) -> Envelope:
    return call_tool(app, "run.resume", {"feature_id": feature})


def _report_resumed(holder: LeaseHolder, answer: Envelope, terminal: Terminal) -> int:
    if not answer.data["resumed"]:
        raise SupervisorRunning(
            f"Nothing was paused, and a supervisor is already running: {holder.name}.", pid=holder.pid
        )
    resumed = ["everything" if name == Pause.all else name for name in answer.data["resumed"]]
    return terminal.answer(
        answer, lambda _data: terminal.say(f"{holder.name.capitalize()} continues: {', '.join(resumed)}")
    )
