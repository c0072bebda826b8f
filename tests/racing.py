"""Processes of their own for tests: some hold something until they are told or killed, some start together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PRELUDE = """\
import json, os, sys
from pathlib import Path

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

"""


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process, and return when it has called `ready()`; it goes on when it gets a line, or is killed."""
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "USER": "ada"},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@contextmanager
def running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Have a process that called `ready()`; it is killed at the end, unless it ended before."""
    child = started(code, *arguments)
    with child:
        try:
            yield child
        finally:
            child.kill()


def race(code: str, competitors: Sequence[Sequence[object]]) -> list[Any]:
    """Let processes that all stand at `ready()` go at once; return what each one then printed, as JSON."""
    children = [started(code, *arguments) for arguments in competitors]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    printed = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return [json.loads(text) for text in printed]


@contextmanager
def at_the_end_of_this_process(script: str, *words: object, user: int | None = None) -> Iterator[None]:
    """Have a shell run a script at the end of a block, or of this process, however that ends."""
    # Nobody else has the other end of its input, so that it is closed by a kill too.
    with subprocess.Popen(
        ["sh", "-c", f"cat > /dev/null; {script}", "sh", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        user=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
    ):
        yield


def until(condition: Callable[[], bool], *, seconds: float = 300.0) -> None:
    """Wait for something that no event tells of."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        # Not without a pause: what is waited for needs the processor.
        threading.Event().wait(0.005)
