"""Agenda: what happens at which virtual moment, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Act = Callable[[], None]


class Agenda:
    """The one clock of a simulation; it jumps from one event to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Act]] = []

    def after(self, seconds: float, act: Act) -> None:
        """Have something done after so long; what is due at the same moment happens in the order it was asked for."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act))

    def run(self, until: float, is_done: Callable[[], bool]) -> None:
        """Let time pass until a moment, or until there is nothing left to do."""
        while self._events and not is_done():
            moment, _, act = heapq.heappop(self._events)
            if moment > until:
                return
            self.now = moment
            act()
