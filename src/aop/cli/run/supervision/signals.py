"""Signals: SIGTERM and SIGINT as a request to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Stopping:
    """Whether a signal asked the process to end, and which one."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._signal = 0

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Record a signal."""
        self._signal = number
        self._asked.set()

    def asked(self) -> bool:
        """Tell whether the process was asked to end."""
        return self._asked.is_set()

    def leave(self, *, otherwise: int) -> NoReturn:
        """End at once, with the signal's exit code or `otherwise`: the next process continues what threads did."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + self._signal if self._signal else otherwise)


@contextmanager
def stop_on_signals() -> Iterator[Stopping]:
    """Record SIGTERM and SIGINT instead of ending the process."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
