"""What outlives an AOP that is killed, such as a step without a sandbox, is found by its mark, and ended."""

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
    """What a process carries that was started for an AOP."""

    maker: int
    place: str
    """Where it works: the folder that a sandbox was made for, or the one that a step is in."""


def end_orphans(root: Path) -> None:
    """End what works in a folder for an AOP that is not there any more."""
    for pid in orphans_in(root):
        _kill(pid)


def orphans_in(root: Path) -> list[int]:
    """Return the processes that work in a folder for an AOP that is not there any more."""
    return [
        pid for pid, mark in _marked() if not os.path.exists(f"/proc/{mark.maker}") and is_within(mark.place, str(root))
    ]


def end_children() -> None:
    """End what works for this process."""
    for pid, mark in _marked():
        if mark.maker == os.getpid():
            _kill(pid)


def _marked() -> Iterator[tuple[int, _Mark]]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # It may end by itself while it is looked at, or be somebody else's.
        with suppress(OSError):
            mark = _mark(name)
            if mark is not None:
                yield int(name), mark


def _mark(pid: str) -> _Mark | None:
    """Return the mark of a process; None if it is neither a step, an agent nor a sandbox."""
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
