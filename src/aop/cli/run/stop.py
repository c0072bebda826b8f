"""`aop stop`: end the supervisor of this repository; what it was doing goes on with `aop resume`."""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from aop.adapters.git.repository import open_repository
from aop.adapters.machine.supervisor_lease import holder_of
from aop.cli.run.supervision.supervise import LEASE
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import SupervisorRunning

PATIENCE_SECONDS = 20.0


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes: nothing of its own."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask the supervisor to end, and wait until it has."""
    path = open_repository(Path(arguments.repo), os.environ).root / LEASE
    holder = holder_of(path)
    if holder is None or not holder.pid:
        terminal.say("No supervisor is running here.")
        if terminal.json:
            terminal.object({"ok": True, "stopped": None})
        return Exit.NOT_PROVEN
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while holder_of(path) is not None:
        if time.monotonic() > deadline:
            raise SupervisorRunning(
                f"The supervisor, process {holder.pid}, was asked to end and has not.", pid=holder.pid
            )
        time.sleep(0.05)
    if terminal.json:
        terminal.object({"ok": True, "stopped": holder.pid})
    else:
        terminal.say(f"Stopped process {holder.pid}. `aop resume` goes on where it was.")
    return Exit.OK
