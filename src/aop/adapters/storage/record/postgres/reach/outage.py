"""Outage of the database, waited out by a process that works for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NoReturn

from aop.core.errors import DatabaseUnavailable

PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.2


class Outage:
    """One database, and since when it has been away; threads share it."""

    def __init__(
        self,
        say: Callable[[str], None],
        is_stopped: Callable[[], bool],
        leave: Callable[[DatabaseUnavailable], NoReturn],
        *,
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._say = say
        self._is_stopped = is_stopped
        self._leave = leave
        """Ends the process, whatever its other threads do: as after a kill, the next one continues."""
        self._seconds = seconds
        self._guard = threading.Lock()
        self._since: float | None = None

    def wait(self, refusal: DatabaseUnavailable) -> None:
        """Wait a moment for a database that could not be reached; the process ends when it has been away for long."""
        with self._guard:
            if self._since is None:
                self._since = time.monotonic()
                self._say(f"{refusal.message}. Waiting for it for at most {self._seconds:.0f} s.")
            is_over = time.monotonic() - self._since > self._seconds
        # Not under the lock: who leaves may look for the database once more.
        if is_over or self._is_stopped():
            self._leave(refusal)
        time.sleep(LOOK_SECONDS)

    def end(self) -> None:
        """Note that the database was reached."""
        if self._since is None:
            return
        with self._guard:
            since, self._since = self._since, None
            if since is not None:
                self._say(f"The database is back after {time.monotonic() - since:.0f} s; the work goes on.")
