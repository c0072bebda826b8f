"""Run queue: the leader's side of one queue, whatever its runs do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg

from aop.adapters.fleet.connections import Connection, engine_address, first_line, impatient
from aop.adapters.fleet.platform_shape import APPLICATION, CALLED, ENDED, LARGEST_ANSWER, RUNS, VERSION
from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.core.errors import Json, RecordLost, WorkerFailed
from aop.kernel.ports.fleet import LogPart

T = TypeVar("T")
LOOK_SECONDS = 0.5
"""How often logs are fetched, and an end is looked for that nobody told of."""
ALONE_SECONDS = 10.0
"""A run that waits for so long without a living worker is taken back."""
_OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
OnLook = Callable[[Connection, str], None]
"""Called at each look at a run that a worker has or had, with a connection and the worker's id."""
Stopped = Callable[[], str]
"""Returns why a run is no longer wanted; empty while it is."""


class RunQueue:
    """One queue of the platform, and the runs of one kind that this process put there."""

    def __init__(self, url: str, *, queue: str, kind: str) -> None:
        self._url = url
        self._queue = queue
        self._kind = kind
        self._guard = threading.Lock()
        self._client: Any = None
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix=f"aop-{queue}")
        self._told: dict[str, threading.Event] = {}

    def unavailable(self) -> str:
        """Return why no worker can take a run now; empty if one can. Raises: RecordLost while the database is away."""
        try:
            with self.connection() as connection:
                return _unavailable(connection, self._queue)
        except psycopg.Error as error:
            raise RecordLost(f"The queue of {self._queue} cannot be asked: {first_line(error)}") from error

    def answer(
        self, run: str, payload: Mapping[str, Any], *, on_wait: Callable[[], None], on_look: OnLook, stopped: Stopped
    ) -> Mapping[str, Json] | None:
        """Have one worker carry out a run; return its answer, or None if no worker lives. Raises: WorkerFailed.

        None also for a run that is no longer wanted before a worker has begun it.
        """
        told = self._told.setdefault(run, threading.Event())
        try:
            self._enqueue(run, payload)
            on_wait()
            if not self._awaited(run, told, on_look, stopped):
                return None
            return self._answer(run)
        finally:
            self._told.pop(run, None)

    def remove(self, run: str) -> None:
        """Remove a run, with all that DBOS knows of it."""
        self._apart(lambda engine: engine.delete_workflow(run))

    def connection(self) -> Connection:
        """Open a connection that notices a cut link."""
        return psycopg.connect(impatient(self._url), autocommit=True, application_name="aop-leader")

    def _enqueue(self, run: str, payload: Mapping[str, Any]) -> None:
        options = {
            "queue_name": self._queue,
            "workflow_name": self._kind,
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
            raise WorkerFailed(f"The queue of {self._queue} cannot be used: {first_line(error)}") from error

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
                threading.Thread(target=self._hear, name=f"aop-{self._queue}-hear", daemon=True).start()
            return self._client

    def _hear(self) -> None:
        while True:
            try:
                with self.connection() as connection:
                    for channel in (ENDED, CALLED):
                        connection.execute(f"LISTEN {channel}")
                    for waiting in list(self._told.values()):
                        # What ended before is not told again.
                        waiting.set()
                    for notice in connection.notifies():
                        if (waiting_for := self._told.get(notice.payload)) is not None:
                            waiting_for.set()
            except psycopg.Error:
                time.sleep(LOOK_SECONDS)

    def _awaited(self, run: str, told: threading.Event, on_look: OnLook, stopped: Stopped) -> bool:
        """Wait for the end of a run; False if it was taken back before a worker had it.

        Raises: WorkerFailed for an answer that is larger than a worker may send.
        """
        watch = _Watch(self.connection, self._queue, run, on_look, stopped)
        try:
            while not watch.is_over():
                if watch.is_taken_back():
                    self.remove(run)
                    return False
                told.wait(LOOK_SECONDS)
                told.clear()
        finally:
            watch.close()
        if watch.answer_bytes > LARGEST_ANSWER:
            raise WorkerFailed(f"A worker's answer is larger than {LARGEST_ANSWER >> 20} MiB.")
        return True

    def _answer(self, run: str) -> Mapping[str, Json]:
        status = self._apart(lambda engine: engine.retrieve_workflow(run).get_status())
        if status.status == "SUCCESS":
            answer: Mapping[str, Json] = status.output
            return answer
        why = str(status.error or status.status)[:2000]
        raise WorkerFailed(f"A worker could not carry out a run of `{self._queue}`: {why}")


class NewLogParts:
    """Passes the logs of a run on, each part once, in order."""

    def __init__(self, run: str, on_log: Callable[[LogPart], None]) -> None:
        self._run = run
        self._on_log = on_log
        self._part = 0

    def pass_on(self, connection: Connection) -> None:
        """Pass on what came since the last call."""
        sql = "SELECT number, path, start, content FROM fleet.logs WHERE run = %s AND number > %s ORDER BY number"
        for number, path, start, content in connection.execute(sql, (self._run, self._part)).fetchall():
            self._on_log(LogPart(path=path, offset=start, content=content))
            self._part = number


class _Watch:
    """A run that a leader waits for, seen over one connection, which is replaced when it is lost."""

    def __init__(
        self, connect: Callable[[], Connection], queue: str, run: str, on_look: OnLook, stopped: Stopped
    ) -> None:
        self._connect = connect
        self._queue = queue
        self._run = run
        self._on_look = on_look
        self._stopped = stopped
        self._connection: Connection | None = None
        self._waits = False
        self._alone_since: float | None = None
        self.answer_bytes = 0
        """The size of the answer, when there is one."""

    def is_over(self) -> bool:
        """Look at the run, and say whether it has ended."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._look(self._connection)
        except psycopg.Error:
            # A database that restarts costs nothing but the time.
            self.close()
            return False

    def is_taken_back(self) -> bool:
        """Take back a run that is no longer wanted or has no living worker, if none has claimed it meanwhile."""
        if not self._waits or not (self._is_alone() or self._stopped()):
            return False
        try:
            return self._connection is not None and _is_cancelled(self._connection, self._run)
        except psycopg.Error:
            self.close()
            return False

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _look(self, connection: Connection) -> bool:
        status, worker, self.answer_bytes = _status(connection, self._run)
        self._waits = status == "ENQUEUED"
        if self._waits:
            is_served = not _unavailable(connection, self._queue)
            self._alone_since = None if is_served else self._alone_since or time.monotonic()
            return False
        self._alone_since = None
        self._on_look(connection, worker)
        return status in _OVER

    def _is_alone(self) -> bool:
        return self._alone_since is not None and time.monotonic() - self._alone_since > ALONE_SECONDS


def _unavailable(connection: Connection, queue: str) -> str:
    found = connection.execute("SELECT to_regclass('fleet.shape') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return "the database has no queues for workers (aop platform init)"
    row = connection.execute("SELECT runs FROM fleet.shape").fetchone()
    if row is None or row[0] != RUNS:
        return "the platform has runs of another shape"
    living = connection.execute(
        "SELECT 1 FROM fleet.workers WHERE gone IS NULL AND NOT drains AND %s = ANY(queues) AND runs = %s"
        # After a restart of the database, workers have some time to find it again.
        " AND (beat > clock_timestamp() - make_interval(secs => %s)"
        " OR pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => %s)) LIMIT 1",
        (queue, RUNS, DEAD_SECONDS, ALONE_SECONDS),
    ).fetchone()
    return "" if living else f"no worker for {queue} is live"


def _is_cancelled(connection: Connection, run: str) -> bool:
    """Cancel a run that no worker has; tell whether it was so."""
    sql = "UPDATE dbos.workflow_status SET status = 'CANCELLED' WHERE workflow_uuid = %s AND status = 'ENQUEUED'"
    return connection.execute(sql, (run,)).rowcount == 1


def _status(connection: Connection, run: str) -> tuple[str, str, int]:
    """Return the status of a run, the worker that has it, and the size of its answer."""
    row = connection.execute(
        "SELECT status, coalesce(executor_id, ''), coalesce(octet_length(output), 0) FROM dbos.workflow_status"
        " WHERE workflow_uuid = %s",
        (run,),
    ).fetchone()
    return (str(row[0]), str(row[1]), int(row[2])) if row else ("CANCELLED", "", 0)
