"""Timed examination: the checks that answer in time, and the one that does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from aop.adapters.reporting.doctor.checks import Check, failure

Begins = Callable[[str], None]
"""Hears the name of a check before it is made."""


class TimedExamination:
    """Makes checks for people who wait: one that hangs is named, and is not begun again while it does."""

    def __init__(self, checks: Callable[[Begins], Iterator[Check]], seconds: float) -> None:
        self._checks = checks
        self._seconds = seconds
        self._lock = threading.Lock()
        self._going: _Going | None = None

    def __call__(self) -> list[Check]:
        """Return the checks; the last one says if it did not answer in time."""
        with self._lock:
            if self._going is None or not self._going.thread.is_alive():
                self._going = _Going(self._checks)
            going = self._going
        going.thread.join(self._seconds)
        is_late, found = going.thread.is_alive(), list(going.found)
        if not is_late:
            return found
        what = f"It has not answered within {self._seconds:g} seconds; the checks after it were not made."
        return [*found, failure(going.current, what, "See what it waits for with: aop doctor")]


class _Going:
    """Checks that are being made, in a thread that ends with the process."""

    def __init__(self, checks: Callable[[Begins], Iterator[Check]]) -> None:
        self.found: list[Check] = []
        self.current = ""
        self.thread = threading.Thread(target=self._make, args=(checks,), daemon=True)
        self.thread.start()

    def _make(self, checks: Callable[[Begins], Iterator[Check]]) -> None:
        for check in checks(self._begin):
            self.found.append(check)

    def _begin(self, name: str) -> None:
        self.current = name
