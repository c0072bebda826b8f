"""Goes on in the background: a process of its own, with its output in a file, that outlives the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path


def in_background(log: Path, work: Callable[[Callable[[], None]], int], tell: Callable[[int], int]) -> int:
    """Do the work in a child; return what `tell` makes of its process id once it has called `ready`.

    If it ends before that, its exit code is ours, and what it said is shown. No thread may be running.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _become_child(log, work, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        is_ready = pipe.read(1) == b"r"
    if is_ready:
        return tell(pid)
    _, status = os.waitpid(pid, 0)
    sys.stderr.write(log.read_text(encoding="utf-8", errors="replace")[-4000:])
    return os.waitstatus_to_exitcode(status)


def _become_child(log: Path, work: Callable[[Callable[[], None]], int], writer: int) -> None:
    code = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, source in ((0, nothing), (1, output), (2, output)):
            os.dup2(source, descriptor)

        def ready() -> None:
            os.write(writer, b"r")
            os.close(writer)

        code = work(ready)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not through Python's own exit, which would undo what the parent did before it forked.
        os._exit(code)
