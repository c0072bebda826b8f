"""Background process: a child that outlives the terminal and logs to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def run_in_background(log: Path, work: Callable[[Callable[[], None]], int], tell: Callable[[int], int]) -> int:
    """Run `work` in a child until it calls `ready`, and `tell` its id; if it ends earlier, print its log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # No thread may be running: a fork copies only the one that calls it.
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


def output_of_command(words: list[str], environ: Mapping[str, str]) -> bytes:
    """Return what another `aop` prints: a process that inherits nothing which this one holds, such as a lease."""
    command = [sys.executable, "-m", "aop.cli.main", *words]
    return subprocess.run(
        command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    ).stdout


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
        # Python's own exit would run the cleanup that belongs to the parent.
        os._exit(code)
