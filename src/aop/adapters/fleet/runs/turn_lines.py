"""Turn lines: the rows between a turn on this worker and its leader.

The turn itself never waits for the database: a thread sends its counts and asks whether it was stopped. Only a call of
the agent that the leader has to answer waits, and not for ever.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from aop.adapters.fleet.platform_shape import CALLED
from aop.adapters.fleet.worker_engine import WorkerEngine
from aop.core.errors import Json, LeaderSilent

LOOK_SECONDS = 0.5
CALL_SECONDS = 60.0
"""For so long an agent's call waits for the leader."""


class TurnLine:
    """The line of one turn."""

    def __init__(self, engine: WorkerEngine, run: str, worker: str, counted: Callable[[], Json]) -> None:
        """`counted` returns what the meter of the turn has counted so far; None without one."""
        self._engine = engine
        self._run = run
        self._worker = worker
        self._counted = counted
        self._sent: Json = None
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="aop-turn-line", daemon=True)
        self.stop_reason = ""
        """Why the leader stopped the turn; empty while it goes on."""
        self.earlier: list[Json] = []
        """What workers that began the turn before had counted last."""

    def __enter__(self) -> Self:
        begin = "INSERT INTO fleet.attempts (run, worker) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._engine.rows(begin, self._run, self._worker)
        before = "SELECT usage FROM fleet.attempts WHERE run = %s AND worker <> %s ORDER BY worker"
        self.earlier = [json.loads(usage) for (usage,) in self._engine.rows(before, self._run, self._worker)]
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def wake(self) -> None:
        """Look for an answer: the database tells of one."""
        self._answered.set()

    def call(self, tool: str, arguments: Json) -> Any:
        """Have the leader answer a call. Raises: LeaderSilent."""
        until, text = time.monotonic() + CALL_SECONDS, msgspec.json.encode(arguments).decode()
        ask = "INSERT INTO fleet.calls (run, tool, arguments) VALUES (%s, %s, %s) RETURNING number, pg_notify(%s, run)"
        number = 0
        while time.monotonic() < until:
            self._answered.clear()
            try:
                if not number:
                    number = self._engine.rows(ask, self._run, tool, text, CALLED)[0][0]
                look = "SELECT answer FROM fleet.calls WHERE run = %s AND number = %s AND answer IS NOT NULL"
                found = self._engine.rows(look, self._run, number)
            except SQLAlchemyError:
                found = []
            if found:
                return json.loads(found[0][0])
            self._answered.wait(LOOK_SECONDS)
        raise LeaderSilent(
            f"The leader did not answer the call of `{tool}` within {CALL_SECONDS:.0f} seconds.", tool=tool
        )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self._look()
            except SQLAlchemyError:
                # A worker without the database goes on with its turns for a while.
                continue

    def _look(self) -> None:
        usage = self._counted()
        if usage != self._sent:
            tell = "UPDATE fleet.attempts SET usage = %s WHERE run = %s AND worker = %s"
            self._engine.rows(tell, json.dumps(usage), self._run, self._worker)
            self._sent = usage
        if not self.stop_reason:
            for (reason,) in self._engine.rows("SELECT reason FROM fleet.stops WHERE run = %s", self._run):
                self.stop_reason = str(reason)
