"""`aop stop`: end the supervisor; `aop resume` continues its work."""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from aop.adapters.git.repository import open_repository
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import SupervisorRunning
from aop.wiring.supervisor_lease import lease_holder

TIMEOUT_SECONDS = 20.0


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the verb has none."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask the supervisor to end, and wait until it has."""
    root = open_repository(Path(arguments.repo), os.environ).root
    holder = lease_holder(root)
    if holder is None or not holder.pid:
        message = "No supervisor is running in this repository."
        return terminal.done({"stopped": None}, message, code=Exit.NOT_PROVEN)
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while lease_holder(root) is not None:
        if time.monotonic() > deadline:
            raise SupervisorRunning(f"The supervisor (process {holder.pid}) did not end in time.", pid=holder.pid)
        time.sleep(0.05)
    return terminal.done({"stopped": holder.pid}, f"Stopped process {holder.pid}. Continue with: aop resume")
