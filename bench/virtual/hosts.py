"""Hosts of a simulation: machines that are killed, frozen and cut off, and the way from them to the database."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from bench.virtual.agenda import Act, Agenda
from bench.virtual.database import Database

T = TypeVar("T")
NOTICED_SECONDS = 2.0
"""A request over a cut link fails so long after it was sent (`tcp_user_timeout`)."""


class Host:
    """One machine. What is asked of it while it is frozen happens when it is thawed; what it was doing ends with it."""

    def __init__(self, agenda: Agenda, database: Database, random: Random) -> None:
        self.agenda = agenda
        self.database = database
        self._random = random
        self.life = 0
        """Counts its lives: what an earlier one has begun does not go on."""
        self.is_alive = True
        self.is_cut = False
        self.is_frozen = False
        self._cuts = 0
        self._late: list[Act] = []

    @property
    def is_disturbed(self) -> bool:
        return self.is_cut or self.is_frozen or not self.is_alive

    @property
    def reaches_database(self) -> bool:
        return self.database.is_up and not self.is_cut

    def after(self, seconds: float, act: Act) -> None:
        """Do something here after so long."""
        life = self.life

        def due() -> None:
            if life != self.life or not self.is_alive:
                return
            if self.is_frozen:
                self._late.append(due)
            else:
                act()

        self.agenda.after(seconds, due)

    def ask(self, do: Callable[[], T], then: Callable[[T], None], failed: Act) -> None:
        """Send something to the database. It may be done although the answer is lost."""
        if not self.reaches_database:
            self.after(NOTICED_SECONDS if self.is_cut else self._latency(), failed)
            return
        answer = do()
        cuts, starts = self._cuts, self.database.back

        def arrive() -> None:
            if self._cuts != cuts or not self.database.is_up or self.database.back != starts:
                self.after(NOTICED_SECONDS if self.is_cut else 0.0, failed)
            else:
                then(answer)

        self.after(self._latency(), arrive)

    def kill(self) -> None:
        self.life += 1
        self.is_alive = False
        self._late.clear()

    def start(self) -> None:
        self.is_alive = True

    def cut(self) -> None:
        self.is_cut = True
        self._cuts += 1

    def join(self) -> None:
        self.is_cut = False

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on: all that was due meanwhile is due now, in whatever order the machine gets to it."""
        self.is_frozen = False
        late, self._late = self._late, []
        for act in late:
            self.agenda.after(self._random.uniform(0.0, 0.2), act)

    def _latency(self) -> float:
        return self._random.uniform(0.002, 0.02)
