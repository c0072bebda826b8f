"""Worker's lead: a supervisor that a worker of the platform has started."""

from __future__ import annotations

import argparse
import os
import signal
import threading

from msgspec.structs import replace

from aop.cli.run.supervision.supervise import supervise_here
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.supervision import plan_of_newest_run
from aop.wiring.supervisor_lease import leases_of, take_lease

END_SECONDS = 20.0


def lead_for_worker(arguments: argparse.Namespace, worker: str, terminal: Terminal) -> int:
    """Lead a repository until its features have ended, from git and the record alone; pauses stay."""
    threading.Thread(target=_end_with_worker, name="aop-worker", daemon=True).start()
    with open_app(arguments) as opened:
        app = replace(opened, person=replace(opened.person, actor=f"worker:{worker}"))
        plan = plan_of_newest_run(app)
        with take_lease(leases_of(app.root, app.record)) as lease:
            return supervise_here(app, plan, lease, terminal, until="ended")


def _end_with_worker() -> None:
    """End this process when its worker has ended: standard input is a pipe that ends then, however it ended."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(END_SECONDS)
    os._exit(Exit.FAILED)
