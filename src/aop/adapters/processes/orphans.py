"""Orphans: processes of a killed AOP, found by their mark and ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from aop.adapters.processes.child import MAKER, MARKER
from aop.adapters.processes.toolchains import is_within


class _Mark(Struct, frozen=True, kw_only=True):
    """The mark of a process that was started for an AOP."""

    maker: int
    place: str
    """The folder that the sandbox was made for, or that the step is in."""


def end_orphans(root: Path) -> None:
    """End the processes in a folder whose AOP is dead."""
    for pid in orphans_in(root):
        _kill(pid)


def orphans_in(root: Path) -> list[int]:
    """Return the processes in a folder whose AOP is dead."""
    return [
        pid
        for pid, mark in _marked_processes()
        if not os.path.exists(f"/proc/{mark.maker}") and is_within(mark.place, str(root))
    ]


def end_children() -> None:
    """End the processes that work for this AOP."""
    for pid, mark in _marked_processes():
        if mark.maker == os.getpid():
            _kill(pid)


def _marked_processes() -> Iterator[tuple[int, _Mark]]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # It may end meanwhile, or belong to another user.
        with suppress(OSError):
            mark = _mark(name)
            if mark is not None:
                yield int(name), mark


def _mark(pid: str) -> _Mark | None:
    """Return the mark of a process; None if it is not a step, an agent or a sandbox."""
    for word in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
        name, _, value = word.partition(b"=")
        maker, _, folder = os.fsdecode(value).partition("-")
        if os.fsdecode(name) in (MAKER, MARKER) and maker.isdigit():
            place = folder if os.path.isabs(folder) else os.readlink(f"/proc/{pid}/cwd")
            return _Mark(maker=int(maker), place=place)
    return None


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
