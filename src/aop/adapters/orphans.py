"""Steps and agents without a sandbox outlive an AOP that is killed: they are found by their mark, and ended."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from aop.adapters.children import MARKER
from aop.adapters.toolchains import is_within


def end_orphans(root: Path) -> None:
    """End what works in a folder for an AOP that is not there any more."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # It may end by itself while it is looked at, or be somebody else's.
        with suppress(OSError):
            if _is_orphan(name) and is_within(os.readlink(f"/proc/{name}/cwd"), str(root)):
                os.kill(int(name), signal.SIGKILL)


def end_children() -> None:
    """End what works without a sandbox for this process; what is in one ends with it."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if _maker(name) == os.getpid():
                os.kill(int(name), signal.SIGKILL)


def _is_orphan(pid: str) -> bool:
    maker = _maker(pid)
    return maker is not None and not os.path.exists(f"/proc/{maker}")


def _maker(pid: str) -> int | None:
    """Return the process that a step or an agent works for; None if it is neither."""
    mark = f"{MARKER}=".encode()
    variables = Path("/proc", pid, "environ").read_bytes().split(b"\0")
    makers = [word.removeprefix(mark).partition(b"-")[0] for word in variables if word.startswith(mark)]
    return next((int(maker) for maker in makers if maker.isdigit()), None)
