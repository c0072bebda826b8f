"""Orphans: processes of a killed AOP, found by their mark and ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aop.adapters.processes.child import MAKER, MARKER
from aop.adapters.processes.toolchains import is_within


def end_orphans(root: Path) -> None:
    """End the processes in a folder whose AOP is dead."""
    for pid in orphans_in(root):
        _kill(pid)


def orphans_in(root: Path) -> list[int]:
    """Return the processes in a folder whose AOP is dead."""
    marked = [(pid, maker) for pid, maker, place in _marked_processes() if is_within(place, str(root))]
    return [pid for pid, maker in marked if not os.path.exists(f"/proc/{maker}")]


def end_children() -> None:
    """End the processes that work for this AOP."""
    for pid, maker, _ in _marked_processes():
        if maker == os.getpid():
            _kill(pid)


def _marked_processes() -> Iterator[tuple[int, int, str]]:
    """Yield the steps, agents and sandboxes: their ids, those of their AOPs, and their folders."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # It may end meanwhile, or belong to another user.
        with suppress(OSError):
            mark = _mark(name)
            if mark is not None:
                yield int(name), *mark


def _mark(pid: str) -> tuple[int, str] | None:
    """Return the AOP of a process, and the folder that it is in or, for a sandbox, was made for; None without mark."""
    for word in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
        name, _, value = word.partition(b"=")
        maker, _, folder = os.fsdecode(value).partition("-")
        if os.fsdecode(name) in (MAKER, MARKER) and maker.isdigit():
            return int(maker), folder if os.path.isabs(folder) else os.readlink(f"/proc/{pid}/cwd")
    return None


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
