"""A worker that has nothing to do: how much of a core it takes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.effort import Effort
from bench.measurements import Budget, Measurement
from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.fleet.platforms import platform_in

IDLE_SECONDS = 20.0


def idle_worker(effort: Effort) -> Iterator[Measurement]:
    """Measure the time on a core that a worker takes in a second."""
    if programs() is None:
        print("PostgreSQL is not installed: skipped.", file=sys.stderr)
        return
    effort.folder.mkdir(parents=True)
    with running_cluster() as url, platform_in(effort.folder, url) as platform:
        pid = platform.worker().process.pid
        before, began = _processor_seconds(pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        spent, passed = _processor_seconds(pid) - before, time.monotonic() - began
    yield Measurement(name="an idle worker, for a second", ours=spent / passed * 1000, budget=Budget("at most", 30.0))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
