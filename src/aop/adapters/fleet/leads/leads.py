"""Leads: the repositories that this worker leads, each by a process of its own.

A repository is due when a person requested work on it, or its leader is dead; not when a person has stopped it. The
claim in the database keeps other workers away while a clone is made ready. The right to lead is the lease that the
process itself takes: a claim alone changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from aop.adapters.fleet.leads.due_repositories import CLAIM, RELEASE
from aop.adapters.fleet.leads.lead_process import LeadProcess
from aop.adapters.storage.record.choice import HUB, REPOSITORY, WORKER
from aop.core.errors import Fault, Refusal

LOOK_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""So long is a repository left to others after its leader could not begin, or failed; doubled each time."""


class Ask(Protocol):
    """A statement of the platform's database; it returns the rows, or None while there is no database."""

    def __call__(self, sql: str, values: Sequence[Any], /) -> Sequence[Sequence[Any]] | None:
        """Run it, and commit."""


class Leads:
    """Looks for repositories that need a leader, and leads as many as it has places."""

    def __init__(
        self,
        ask: Ask,
        begin: Callable[[str, str], LeadProcess],
        *,
        worker: str,
        places: int,
        pause: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._begin = begin
        """Starts the leader of a repository, by its name and hub."""
        self._worker = worker
        self._places = places
        self._pause = pause
        self._say = say
        self._led: dict[str, LeadProcess] = {}
        self._held_back: dict[str, tuple[float, float]] = {}
        """Of repositories whose leader failed here: until when they are left to others, and for how long."""
        self._wake = threading.Event()
        self._is_asked_again = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="aop-leads", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon, also for what failed here before: a person asks for it."""
        self._is_asked_again.set()
        self._wake.set()

    def busy(self) -> int:
        """Return how many repositories are led here."""
        return len(self._led)

    def stop(self) -> None:
        """Let the leaders end in order, and others take their place."""
        self._stopped.set()
        self._wake.set()
        self._thread.join()
        ended = list(self._led.items())
        for _, process in ended:
            process.ask_to_end()
        for name, process in ended:
            process.await_end()
            self._led.pop(name)
        self._release_others()

    def _look_on(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(max(LOOK_SECONDS, self._pause()))
            self._wake.clear()
            if self._is_asked_again.is_set():
                self._is_asked_again.clear()
                self._held_back.clear()
            self._reap()
            # Also claims whose answer, or whose end, was lost with a connection.
            self._release_others()
            while not self._stopped.is_set() and len(self._led) < self._places and self._has_taken_one():
                pass

    def _reap(self) -> None:
        for name, process in list(self._led.items()):
            code = process.exit_code()
            if code is None:
                continue
            del self._led[name]
            if code:
                self._hold_back(name, f"its leader ended with {code}: {process.last_words()}")
            else:
                self._held_back.pop(name, None)
                self._say(f"{name}: everything has ended.")

    def _has_taken_one(self) -> bool:
        now = time.monotonic()
        waiting = [name for name, (until, _) in self._held_back.items() if until > now]
        rows = self._ask(CLAIM, (self._worker, waiting))
        if not rows:
            return False
        name, hub = str(rows[0][0]), str(rows[0][1])
        try:
            self._led[name] = self._begin(name, hub)
        except (Refusal, Fault, OSError) as error:
            self._hold_back(name, str(error))
            self._release_others()
        else:
            self._say(f"{name}: led by this worker.")
        return True

    def _hold_back(self, name: str, why: str) -> None:
        _, before = self._held_back.get(name, (0.0, FIRST_PAUSE / 2))
        seconds = min(LONGEST_PAUSE, before * 2)
        self._held_back[name] = (time.monotonic() + seconds, seconds)
        self._say(f"{name}: {why}")

    def _release_others(self) -> None:
        """Give up the claims on what is not led here; while the database is away they stay until the next look."""
        self._ask(RELEASE, (self._worker, list(self._led)))


def environment_of(environ: Mapping[str, str], name: str, hub: str, worker: str) -> dict[str, str]:
    """Return the environment of the process that leads a repository."""
    return {**environ, REPOSITORY: name, HUB: hub, WORKER: worker}
