"""How much of a core `aop watch` takes on a terminal while nothing moves."""

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
from bench.measurements import Budget, Measurement
from bench.scenes import Scene

FEATURES = 200
WARM_UP_SECONDS = 3.0


def watch(effort: Effort) -> Iterator[Measurement]:
    """Watch a repository whose supervisor waits, and count the time on a core in each second."""
    scene = Scene(effort.folder, files=20)
    scene.place([f"placed_{number}" for number in range(FEATURES)], planned=True)
    now = timestamp(scene.app.gateway.kernel.clock.now())
    scene.close()
    seconds = 20.0 if effort.turns > 5 else 5.0
    with take_lease(file_leases(scene.root)) as lease:
        lease.sign(LeaseHolder(pid=os.getpid(), since=now))
        used = _milliseconds_a_second(scene.root, seconds)
    name = f"aop watch for a second in which nothing moves, {FEATURES} features"
    # A hundredth of a core.
    yield Measurement(name=name, ours=used, budget=Budget("at most", 10.0))


def _milliseconds_a_second(root: Path, seconds: float) -> float:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 140, 0, 0))
    aop = str(Path(sys.executable).with_name("aop"))
    with subprocess.Popen([aop, "watch"], cwd=root, stdin=terminal, stdout=terminal, stderr=terminal) as watching:
        os.close(terminal)
        threading.Thread(target=_drain, args=(screen,), daemon=True).start()
        time.sleep(WARM_UP_SECONDS)
        before = _on_core(watching.pid)
        time.sleep(seconds)
        used = _on_core(watching.pid) - before
        watching.terminate()
    return used / seconds


def _on_core(pid: int) -> float:
    """Return the milliseconds that a process has had a core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e6


def _drain(screen: int) -> None:
    with suppress(OSError):
        while os.read(screen, 65536):
            pass
