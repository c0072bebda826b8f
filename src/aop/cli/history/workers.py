"""`aop workers`: list the workers of all machines."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from aop.cli.screens.styles import add_colour_argument, screen_of
from aop.cli.screens.tables import Cell, Column, table
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.core.text.counts import count

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.kernel.record.platforms import WorkerRow

COLUMNS = tuple(
    Column(title=title) for title in ("WORKER", "STATE", "QUEUES", "BUSY", "SEEN", "HOST", "VERSION", "LABELS")
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the workers, and how many runs none of them serves."""
    from aop.adapters.fleet.connections import platform_address
    from aop.adapters.fleet.platform import Platform

    with Platform(platform_address(os.environ)) as platform:
        platform.check()
        workers, stranded = platform.workers(), platform.stranded()
    data: Json = {"workers": [msgspec.to_builtins(worker) for worker in workers], "stranded": stranded}
    screen = screen_of(terminal, arguments.color, os.environ)
    lines = table(COLUMNS, [_cells(worker) for worker in workers], screen.width, screen.paint) if workers else []
    if stranded:
        lines.append(f"{count(stranded, 'run')} of another AOP that no worker serves: start a worker of that version.")
    return terminal.result(data, "\n".join(lines), empty="No worker has started: aop worker --queues gates")


def _cells(worker: WorkerRow) -> Sequence[Cell]:
    labels = " ".join(f"{name}={value}" for name, value in sorted(worker.labels.items()))
    busy, seen = f"{worker.busy}/{worker.places}", f"{worker.seen_seconds:.1f} s"
    texts = (worker.id, worker.state, ",".join(worker.queues), busy, seen, worker.host, worker.version, labels or "-")
    return [Cell(text) for text in texts]
