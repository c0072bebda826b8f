"""Processes that have nothing to do: how much of a core a worker and `aop watch` take."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.core.clock import timestamp
from aop.wiring.supervisor_lease import file_leases, take_lease
from bench.effort import Effort
from bench.measurements import Budget, Measurement, Skipped
from bench.scenes import Scene
from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.fleet.platforms import platform_in


def idle_worker(effort: Effort) -> Iterator[Measurement | Skipped]:
    """Measure the time on a core that a worker takes in a second."""
    if programs() is None:
        yield Skipped("PostgreSQL is not installed.")
        return
    effort.folder.mkdir(parents=True)
    with running_cluster() as url, platform_in(effort.folder, url) as platform:
        pid = platform.worker().process.pid
        before, began = _processor_seconds(pid), time.monotonic()
        time.sleep(effort.idle_seconds)
        spent, passed = _processor_seconds(pid) - before, time.monotonic() - began
    yield Measurement(name="an idle worker, for a second", ours=spent / passed * 1000, budget=Budget("at most", 30.0))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


LONGEST_SECONDS = 60.0
WARM_UP = 0.15
"""The time after the first frame that is not measured, as a share of the time that is."""


def watch(effort: Effort) -> Iterator[Measurement]:
    """Watch a repository whose supervisor waits, and count the time on a core in each second."""
    scene = Scene(effort.folder, files=20)
    scene.place([f"placed_{number}" for number in range(effort.features_listed)], planned=True)
    now = timestamp(scene.app.gateway.kernel.clock.now())
    scene.close()
    with take_lease(file_leases(scene.root)) as lease:
        lease.sign(LeaseHolder(pid=os.getpid(), since=now))
        used = _milliseconds_a_second(scene.root, effort.idle_seconds)
    name = f"aop watch for a second in which nothing moves, {effort.features_listed} features"
    # A hundredth of a core.
    yield Measurement(name=name, ours=used, budget=Budget("at most", 10.0))


def _milliseconds_a_second(root: Path, seconds: float) -> float:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 140, 0, 0))
    aop = str(Path(sys.executable).with_name("aop"))
    with subprocess.Popen([aop, "watch"], cwd=root, stdin=terminal, stdout=terminal, stderr=terminal) as watching:
        os.close(terminal)
        drawn = threading.Event()
        threading.Thread(target=_drain, args=(screen, drawn), daemon=True).start()
        if not drawn.wait(LONGEST_SECONDS):
            raise RuntimeError(f"`aop watch` showed nothing in {LONGEST_SECONDS:g} s.")
        time.sleep(seconds * WARM_UP)
        before = _on_core(watching.pid)
        time.sleep(seconds)
        used = _on_core(watching.pid) - before
        if watching.poll() is not None:
            raise RuntimeError(f"`aop watch` ended with exit code {watching.returncode}.")
        watching.terminate()
    return used / seconds


def _on_core(pid: int) -> float:
    """Return the milliseconds that a process has had a core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e6


def _drain(screen: int, drawn: threading.Event) -> None:
    with suppress(OSError):
        while os.read(screen, 65536):
            drawn.set()
