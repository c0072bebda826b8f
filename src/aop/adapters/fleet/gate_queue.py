"""Gate queue: the leader's side of gate runs on other machines."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from aop.adapters.fleet.connections import Connection, engine_address, first_line, impatient
from aop.adapters.fleet.platform_shape import APPLICATION, ENDED, RUNS, VERSION
from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.adapters.git.refs.hub import Hub
from aop.core.errors import Json, WorkerFailed
from aop.core.ids import CommitId
from aop.kernel.ports.gate_workers import LogPart
from aop.kernel.ports.handed_in import Report

T = TypeVar("T")
QUEUE = "gates"
LOOK_SECONDS = 0.5
"""How often logs are fetched, and an end is looked for that nobody told of."""
ALONE_SECONDS = 10.0
"""A run that waits for so long without a living worker is taken back."""
_OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


class GateQueue:
    """Implements `aop.kernel.ports.gate_workers.GateWorkers` on the queues of the platform."""

    def __init__(self, url: str, repository: str, hub: Hub) -> None:
        self._url = url
        self._repository = repository
        self._hub = hub
        self._guard = threading.Lock()
        self._client: Any = None
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="aop-gates")
        self._told: dict[str, threading.Event] = {}
        self._answered: set[str] = set()
        self._forgotten: queue.SimpleQueue[str] = queue.SimpleQueue()

    def unavailable(self) -> str:
        if not self._hub.url:
            return "AOP_HUB names no git repository through which workers get commits"
        try:
            with self._connection() as connection:
                return _unavailable(connection)
        except psycopg.Error as error:
            return f"the database does not answer: {str(error).strip().splitlines()[0]}"

    def run(
        self,
        order: Mapping[str, Json],
        commit: CommitId,
        *,
        key: str,
        report: Report,
        on_log: Callable[[LogPart], None],
    ) -> Mapping[str, Json] | None:
        run = f"{self._repository}/{key}"
        plan: Any = order["plan"]
        ref = self._hub.push(commit, f"{self._repository}/{plan['feature_id']}")
        payload = {"order": order, "hub": self._hub.url, "ref": ref, "commit": commit, "repository": self._repository}
        told = self._told.setdefault(run, threading.Event())
        try:
            self._enqueue(run, payload)
            report(f"{plan['feature_id']}: {plan['mode']} gates wait for a worker")
            if not self._awaited(run, told, report, on_log):
                return None
            return self._answer(run)
        finally:
            self._told.pop(run, None)

    def forget(self, operation: str) -> None:
        with self._guard:
            for run in [run for run in self._answered if run.startswith(f"{self._repository}/{operation}.")]:
                self._answered.discard(run)
                self._forgotten.put(run)

    def _enqueue(self, run: str, payload: Mapping[str, Any]) -> None:
        options = {
            "queue_name": QUEUE,
            "workflow_name": "gate",
            "workflow_id": run,
            "app_version": VERSION,
        }
        self._apart(lambda engine: engine.enqueue(options, payload))

    def _apart(self, do: Callable[[Any], T]) -> T:
        """Do something with the client of DBOS, in a thread of its own: this one may be a step of another engine."""
        # Imported with DBOS.
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return self._threads.submit(lambda: do(self._engine())).result()
        except SQLAlchemyError as error:
            raise WorkerFailed(f"The queue of gates cannot be used: {first_line(error)}") from error

    def _engine(self) -> Any:
        """Return the client of DBOS, with the one thread that hears of ends; made at the first order."""
        with self._guard:
            if self._client is None:
                # DBOS takes long to import, and most commands order nothing.
                from dbos import DBOSClient, DBOSPortableJSONSerializer

                self._client = DBOSClient(
                    system_database_url=engine_address(self._url),
                    serializer=DBOSPortableJSONSerializer(),
                    application_name=APPLICATION,
                    system_database_pool_size=2,
                )
                for target in (self._hear, self._remove):
                    threading.Thread(target=target, name=f"aop-gates-{target.__name__}", daemon=True).start()
            return self._client

    def _hear(self) -> None:
        while True:
            try:
                with self._connection() as connection:
                    connection.execute(f"LISTEN {ENDED}")
                    for waiting in list(self._told.values()):
                        # What ended before is not told again.
                        waiting.set()
                    for notice in connection.notifies():
                        if notice.payload in self._told:
                            self._told[notice.payload].set()
            except psycopg.Error:
                time.sleep(LOOK_SECONDS)

    def _remove(self) -> None:
        """Remove runs whose answer is recorded; those of a leader that died are removed by the workers' judge."""
        while True:
            run = self._forgotten.get()
            with suppress(psycopg.Error), self._connection() as connection:
                connection.execute("DELETE FROM fleet.logs WHERE run = %s", (run,))
                self._client.delete_workflow(run)

    def _awaited(self, run: str, told: threading.Event, report: Report, on_log: Callable[[LogPart], None]) -> bool:
        """Wait for the end of a run, and pass its logs on; False if no worker lives and it was taken back."""
        watch = _Watch(self._connection, run, report, on_log)
        try:
            while not watch.is_over():
                if watch.is_alone():
                    self._apart(lambda engine: engine.delete_workflow(run))
                    return False
                told.wait(LOOK_SECONDS)
                told.clear()
        finally:
            watch.close()
        return True

    def _answer(self, run: str) -> Mapping[str, Json]:
        status = self._apart(lambda engine: engine.retrieve_workflow(run).get_status())
        self._answered.add(run)
        if status.status == "SUCCESS":
            answer: Mapping[str, Json] = status.output
            return answer
        why = str(status.error or status.status)[:2000]
        raise WorkerFailed(f"A worker could not run the gates: {why}")

    def _connection(self) -> Connection:
        return psycopg.connect(impatient(self._url), autocommit=True, application_name="aop-leader")


class _Watch:
    """A run that a leader waits for, seen over one connection, which is replaced when it is lost."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        run: str,
        report: Report,
        on_log: Callable[[LogPart], None],
    ) -> None:
        self._connect = connect
        self._run = run
        self._report = report
        self._on_log = on_log
        self._connection: Connection | None = None
        self._part = 0
        self._worker = ""
        self._alone_since: float | None = None

    def is_over(self) -> bool:
        """Look at the run: tell who has it, pass its logs on, and say whether it has ended."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._look(self._connection)
        except psycopg.Error:
            # A database that restarts costs nothing but the time.
            self.close()
            return False

    def is_alone(self) -> bool:
        """Tell whether the run has waited long without a living worker."""
        return self._alone_since is not None and time.monotonic() - self._alone_since > ALONE_SECONDS

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _look(self, connection: Connection) -> bool:
        status, worker = _status(connection, self._run)
        if status == "PENDING" and worker != self._worker:
            self._worker = worker
            self._report(f"gates run on the worker {worker}")
        if status == "ENQUEUED":
            is_served = not _unavailable(connection)
            self._alone_since = None if is_served else self._alone_since or time.monotonic()
            return False
        self._alone_since = None
        sql = "SELECT number, path, start, content FROM fleet.logs WHERE run = %s AND number > %s ORDER BY number"
        for number, path, start, content in connection.execute(sql, (self._run, self._part)).fetchall():
            self._on_log(LogPart(path=path, offset=start, content=content))
            self._part = number
        return status in _OVER


def _unavailable(connection: Connection) -> str:
    found = connection.execute("SELECT to_regclass('fleet.shape') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return "the database has no queues for workers (aop platform init)"
    row = connection.execute("SELECT runs FROM fleet.shape").fetchone()
    if row is None or row[0] != RUNS:
        return "the platform has runs of another shape"
    living = connection.execute(
        "SELECT 1 FROM fleet.workers WHERE gone IS NULL AND NOT drains AND %s = ANY(queues) AND runs = %s"
        " AND beat > clock_timestamp() - make_interval(secs => %s) LIMIT 1",
        (QUEUE, RUNS, DEAD_SECONDS),
    ).fetchone()
    return "" if living else "no worker for gates is live"


def _status(connection: Connection, run: str) -> tuple[str, str]:
    sql = "SELECT status, coalesce(executor_id, '') FROM dbos.workflow_status WHERE workflow_uuid = %s"
    row = connection.execute(sql, (run,)).fetchone()
    return (str(row[0]), str(row[1])) if row else ("CANCELLED", "")
