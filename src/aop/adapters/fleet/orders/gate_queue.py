"""Gate queue: the leader's side of gate runs on other machines."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psycopg

from aop.adapters.fleet.connections import Connection
from aop.adapters.fleet.orders.run_queue import NewLogParts, RunQueue
from aop.adapters.git.refs.hub import Hub
from aop.core.errors import Json, WorkerFailed
from aop.core.ids import CommitId
from aop.kernel.ports.fleet import LogPart
from aop.kernel.ports.handed_in import Report


class GateQueue:
    """Implements `aop.kernel.ports.fleet.GateWorkers` on the queues of the platform."""

    def __init__(self, url: str, repository: str, hub: Hub) -> None:
        self._runs = RunQueue(url, queue="gates", kind="gate")
        self._repository = repository
        self._hub = hub
        self._guard = threading.Lock()
        self._answered: set[str] = set()
        self._forgotten: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._remover: threading.Thread | None = None

    def unavailable(self) -> str:
        if not self._hub.url:
            return "AOP_HUB names no git repository through which workers get commits"
        return self._runs.unavailable()

    def run(
        self,
        order: Mapping[str, Json],
        commit: CommitId,
        *,
        key: str,
        report: Report,
        on_log: Callable[[LogPart], None],
        stopped: Callable[[], str],
    ) -> Mapping[str, Json] | None:
        run = f"{self._repository}/{key}"
        plan: Any = order["plan"]
        ref = self._hub.push(commit, f"{self._repository}/{plan['feature_id']}")
        payload = {"order": order, "hub": self._hub.url, "ref": ref, "commit": commit, "repository": self._repository}
        look = _Look(run, report, on_log)
        waits = f"{plan['feature_id']}: {plan['mode']} gates wait for a worker"
        try:
            return self._runs.answer(run, payload, on_wait=lambda: report(waits), on_look=look, stopped=stopped)
        finally:
            self._answered.add(run)

    def forget(self, operation: str) -> None:
        with self._guard:
            for run in [run for run in self._answered if run.startswith(f"{self._repository}/{operation}.")]:
                self._answered.discard(run)
                self._forgotten.put(run)
                if self._remover is None:
                    self._remover = threading.Thread(target=self._remove, name="aop-gates-remove", daemon=True)
                    self._remover.start()

    def _remove(self) -> None:
        """Remove runs whose answer is recorded; those of a leader that died are removed by the workers' judge."""
        while True:
            run = self._forgotten.get()
            with suppress(psycopg.Error, WorkerFailed), self._runs.connection() as connection:
                connection.execute("DELETE FROM fleet.logs WHERE run = %s", (run,))
                self._runs.remove(run)


class _Look:
    """Passes the logs of a gate run on, and reports who has it."""

    def __init__(self, run: str, report: Report, on_log: Callable[[LogPart], None]) -> None:
        self._report = report
        self._logs = NewLogParts(run, on_log)
        self._worker = ""

    def __call__(self, connection: Connection, worker: str) -> None:
        if worker and worker != self._worker:
            self._worker = worker
            self._report(f"gates run on the worker {worker}")
        self._logs.pass_on(connection)
