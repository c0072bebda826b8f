"""Turn queue: the leader's side of turns on other machines.

While a turn goes on, its worker sends logs and counts as rows, and asks for what only the leader can read. The leader
looks at them whenever it looks at the run, and tells the worker by a row that the turn must end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

import msgspec
import psycopg

from aop.adapters.fleet.connections import Connection, first_line
from aop.adapters.fleet.orders.run_queue import NewLogParts, RunQueue
from aop.adapters.fleet.platform_shape import ANSWERED, FORGET_RUNS
from aop.adapters.git.refs.hub import Hub
from aop.core.errors import Json, WorkerFailed
from aop.core.ids import CommitId
from aop.kernel.ports.fleet import LeaderSide, TurnRun

STOP = "INSERT INTO fleet.stops (run, reason) VALUES (%s, %s) ON CONFLICT DO NOTHING"


class TurnQueue:
    """Implements `aop.kernel.ports.fleet.TurnWorkers` on the queues of the platform."""

    def __init__(self, url: str, repository: str, hub: Hub) -> None:
        self._runs = RunQueue(url, queue="agents", kind="turn")
        self._repository = repository
        self._hub = hub

    def unavailable(self) -> str:
        return self._runs.unavailable()

    def run(self, order: Mapping[str, Json], commit: CommitId, *, name: str, key: str, leader: LeaderSide) -> TurnRun:
        turns = f"{self._repository}/turn.{name}."
        run = f"{turns}{key}"
        ref = self._hub.push(commit, f"{self._repository}/turn.{name}")
        payload = {"order": order, "hub": self._hub.url, "ref": ref, "commit": commit, "repository": self._repository}
        self._stop_others(turns, run)
        look = _Look(run, leader)
        try:
            answer = self._runs.answer(run, payload, on_wait=lambda: None, on_look=look, stopped=leader.stopped)
        except WorkerFailed:
            self._remove(run)
            raise
        except BaseException:
            # Nobody waits for it any more: its worker ends it, and the judge of the workers removes it.
            self._stop(run)
            raise
        self._remove(run)
        return TurnRun(answer=answer, attempts=look.attempts)

    def _stop_others(self, turns: str, run: str) -> None:
        """End turns of the same role that an earlier leader ordered and did not live to hear of."""
        sql = (
            "INSERT INTO fleet.stops (run, reason) SELECT workflow_uuid, %s FROM dbos.workflow_status"
            " WHERE starts_with(workflow_uuid, %s) AND workflow_uuid <> %s AND status IN ('ENQUEUED', 'PENDING')"
            " ON CONFLICT DO NOTHING"
        )
        try:
            with self._runs.connection() as connection:
                connection.execute(sql, ("Another turn of this role has begun.", turns, run))
        except psycopg.Error as error:
            raise WorkerFailed(f"The queue of agents cannot be used: {first_line(error)}") from error

    def _stop(self, run: str) -> None:
        with suppress(psycopg.Error), self._runs.connection() as connection:
            connection.execute(STOP, (run, "Its leader no longer waits for it."))

    def _remove(self, run: str) -> None:
        """Remove a turn that is over; what stays, because the database is gone, the judge of the workers removes."""
        with suppress(psycopg.Error, WorkerFailed), self._runs.connection() as connection:
            for statement in FORGET_RUNS:
                connection.execute(statement, ([run],))
            self._runs.remove(run)


class _Look:
    """Passes logs and counts on, answers calls, and stops the turn when its feature was stopped."""

    def __init__(self, run: str, leader: LeaderSide) -> None:
        self._run = run
        self._leader = leader
        self._logs = NewLogParts(run, leader.on_log)
        self._worker = ""
        self._is_stopped = False
        self.attempts: dict[str, Json] = {}
        """The workers that began the turn, with their counts."""

    def __call__(self, connection: Connection, worker: str) -> None:
        if worker and worker != self._worker:
            self._worker = worker
            self._leader.on_worker(worker)
        self._logs.pass_on(connection)
        self._count(connection)
        self._stop(connection)
        sql = "SELECT number, tool, arguments FROM fleet.calls WHERE run = %s AND answer IS NULL ORDER BY number"
        for number, tool, arguments in connection.execute(sql, (self._run,)).fetchall():
            answer = self._leader.answer(tool, json.loads(arguments))
            connection.execute(
                "UPDATE fleet.calls SET answer = %s WHERE run = %s AND number = %s",
                (msgspec.json.encode(answer).decode(), self._run, number),
            )
            connection.execute("SELECT pg_notify(%s, %s)", (ANSWERED, self._run))

    def _count(self, connection: Connection) -> None:
        rows = connection.execute("SELECT worker, usage FROM fleet.attempts WHERE run = %s", (self._run,)).fetchall()
        for worker, text in rows:
            usage: Json = json.loads(text)
            if worker == self._worker and usage is not None and usage != self.attempts.get(worker):
                self._leader.on_count(usage)
            self.attempts[worker] = usage

    def _stop(self, connection: Connection) -> None:
        if self._is_stopped or not (reason := self._leader.stopped()):
            return
        connection.execute(STOP, (self._run, reason))
        self._is_stopped = True
