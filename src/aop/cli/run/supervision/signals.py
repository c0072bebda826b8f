"""Ends long work when the terminal or another process asks for it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopping:
    """Whether the process was asked to end, and by which signal."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._signal = 0

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Take note of a signal."""
        self._signal = number
        self._asked.set()

    def asked(self) -> bool:
        """Tell whether the process was asked to end."""
        return self._asked.is_set()

    def leave(self, *, otherwise: int) -> None:
        """End at once, whatever other threads wait for: what they do goes on in the next process.

        The exit code tells of the signal, or is the other one if there was none.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + self._signal if self._signal else otherwise)


@contextmanager
def stop_on_signals() -> Iterator[Stopping]:
    """Give what tells whether the process was asked to end."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
