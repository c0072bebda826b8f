"""Ticket queue: runs that are asked for here, and carried out by workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

import psycopg

from aop.adapters.fleet.connections import Connection, connect, engine_address, first_line, refusals_of
from aop.adapters.fleet.platform_shape import APPLICATION, ENDED, RUNS, TICKETS, VERSION
from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.adapters.fleet.runs.tickets.platform_ledger import PlatformLedger
from aop.adapters.fleet.runs.tickets.ticket_service import TicketService
from aop.core.errors import DatabaseRights, DatabaseUnavailable, PlatformMissing, WorkerFailed
from aop.core.ids import RunId
from aop.tickets.mission.keys import project_of
from aop.tickets.runs.storage import StorageFailed

KIND = "ticket"
LOOK_SECONDS = 0.5
"""How often an end is looked for that nobody told of."""
END_SECONDS = 5.0
"""How long the end of a run that has its answer is waited for."""
_OVER = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


class TicketQueue:
    """The queue `tickets` of a platform, and those of single projects, as commands and webhooks use them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._guard, self._engine_guard = threading.Lock(), threading.Lock()
        self._connection: Connection | None = None
        self.ledger = PlatformLedger(self._transaction)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._client is not None:
            self._client.destroy()
        if self._connection is not None:
            self._connection.close()

    def is_there(self) -> bool:
        """Tell whether the database has queues for tickets, for runs of this shape.

        Raises: DatabaseUnavailable, DatabaseRights.
        """
        with refusals_of(self._url), self._transaction() as rows:
            found = rows.execute("SELECT to_regclass('fleet.ticket_runs') IS NOT NULL").fetchone()
            if found is None or not found[0]:
                return False
            shape = rows.execute("SELECT runs FROM fleet.shape").fetchone()
            return shape is not None and shape[0] == RUNS

    def check(self) -> None:
        """Check that runs can be queued. Raises: PlatformMissing, DatabaseRights, DatabaseUnavailable."""
        if not self.is_there():
            raise PlatformMissing("The database has no queue for tickets.")
        with refusals_of(self._url), self._transaction() as rows:
            row = rows.execute(
                "SELECT has_table_privilege('fleet.ticket_runs', 'INSERT')"
                " AND has_table_privilege('dbos.workflow_status', 'INSERT')"
            ).fetchone()
        if row is None or not row[0]:
            raise DatabaseRights("it may not write into the queue of tickets.")

    def service(self) -> TicketService:
        """Return which queues for tickets there are now, and which of them a live worker takes.

        Raises: DatabaseUnavailable, DatabaseRights.
        """
        with refusals_of(self._url), self._transaction() as rows:
            found = rows.execute(
                "SELECT q.name, EXISTS (SELECT 1 FROM fleet.workers w WHERE w.gone IS NULL AND NOT w.drains"
                " AND q.name = ANY(w.queues) AND w.runs = %s"
                " AND w.beat > clock_timestamp() - make_interval(secs => %s))"
                " FROM dbos.queues q WHERE q.application_name = %s AND split_part(q.name, '/', 1) = %s",
                (RUNS, DEAD_SECONDS, APPLICATION, TICKETS),
            ).fetchall()
        return TicketService(dict(found))

    def submit(self, kind: str, run_id: RunId, ticket: str) -> None:
        """Queue a run of the ledger; one that is queued or active already stays. Raises: WorkerFailed."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            queue = self.service().queue_of(project_of(ticket))
            options = {
                "queue_name": queue, "workflow_name": KIND, "workflow_id": _key(run_id), "app_version": VERSION,
            }  # fmt: skip
            if self._status(run_id)[0] in _OVER:
                # It broke without an answer, and is begun once more: what it wrote has its marks.
                self._engine().delete_workflow(_key(run_id))
            self._engine().enqueue(options, {"kind": kind, "ticket": ticket, "run_id": run_id})
        except (psycopg.Error, SQLAlchemyError) as error:
            raise WorkerFailed(f"The queue of tickets cannot be used: {first_line(error)}") from error

    def answer(self, run_id: RunId, report: Callable[[str], None]) -> Any:
        """Wait for the answer of a run, and report who has it. Raises: WorkerFailed."""
        worker = ""
        while True:
            try:
                with self._listening() as connection:
                    while True:
                        # The answer first: who gave it is known then, however quick they were.
                        answer = self.ledger.answer(run_id)
                        status, now = self._status(run_id)
                        if now and now != worker:
                            worker = now
                            report(f"{run_id} is carried out by the worker {worker}.")
                        if answer is not None:
                            return answer
                        if status in _OVER or not status:
                            raise WorkerFailed(f"The worker {worker} could not carry out `{run_id}`.")
                        for _notice in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                            pass
            except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnavailable, StorageFailed):
                # A database that restarts costs nothing but the time.
                time.sleep(LOOK_SECONDS)

    def forget(self, run_id: RunId) -> None:
        """Remove a run that was answered from the engine; if this fails, the workers' judge does it later."""
        from sqlalchemy.exc import SQLAlchemyError

        given_up = time.monotonic() + END_SECONDS
        with suppress(psycopg.Error, SQLAlchemyError, DatabaseUnavailable):
            while (status := self._status(run_id)[0]) == "PENDING" and time.monotonic() < given_up:
                # Its answer is stored a moment before its end.
                time.sleep(0.05)
            if status == "SUCCESS":
                self._engine().delete_workflow(_key(run_id))

    def _status(self, run_id: RunId) -> tuple[str, str]:
        """Return the state of a run in the engine, and the worker that has or had it."""
        with self._transaction() as rows:
            sql = "SELECT status, coalesce(executor_id, '') FROM dbos.workflow_status WHERE workflow_uuid = %s"
            row = rows.execute(sql, (_key(run_id),)).fetchone()
        if row is None:
            return "", ""
        return str(row[0]), str(row[1]) if row[0] != "ENQUEUED" else ""

    def _engine(self) -> Any:
        with self._engine_guard:
            return self._client or self._made_client()

    def _made_client(self) -> Any:
        # DBOS takes long to import, and most commands queue nothing.
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        self._client = DBOSClient(
            system_database_url=engine_address(self._url),
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            system_database_pool_size=2,
        )
        return self._client

    @contextmanager
    def _listening(self) -> Iterator[Connection]:
        with connect(self._url) as connection:
            connection.execute(f"LISTEN {ENDED}")
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._guard, ExitStack() as begun:
            try:
                connection = self._open()
                begun.enter_context(connection.transaction())
            except (psycopg.OperationalError, psycopg.InterfaceError):
                # The server was restarted since the last transaction; in this one, nothing has happened.
                connection = self._open()
                begun.enter_context(connection.transaction())
            yield connection

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url)
        return self._connection


def _key(run_id: RunId) -> str:
    return f"{TICKETS}/{run_id}"
