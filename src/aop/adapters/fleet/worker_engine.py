"""Worker engine: DBOS on the platform's database, for the runs of one worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dbos
import psycopg
from dbos import DBOS
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from aop.adapters.fleet.claims import Claims
from aop.adapters.fleet.connections import Connection, engine_address
from aop.adapters.fleet.platform_shape import APPLICATION, VERSION
from aop.core.errors import Fault, Json

Perform = Callable[[str, Mapping[str, Json]], Mapping[str, Json]]
"""Carries a run out: its id and payload in, its answer out."""
POOL = 1
"""With those on which DBOS and the beats listen, a worker has three connections."""
_INSERT_LOG = (
    "INSERT INTO fleet.logs (run, worker, path, start, content) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
_RECOVERIES = 1_000_000
_SLOW_SECONDS = 60.0


class WorkerEngine:
    """The engine of one worker; DBOS exists once in a process."""

    def __init__(self, url: str, worker: str, queues: Sequence[str], places: int, workers: Callable[[], int]) -> None:
        self._worker = worker
        self._engine = create_engine(
            engine_address(url), pool_size=POOL, max_overflow=0, pool_timeout=30, pool_pre_ping=True
        )
        self.claims = Claims(queues, places, workers, worker, VERSION)
        self._taking = threading.Thread(target=self.claims.take, name="aop-claims", daemon=True)

    def start(self, kinds: Mapping[str, Perform]) -> None:
        """Launch DBOS, and take runs of these kinds."""
        config: dbos.DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._engine,
            "executor_id": self._worker,
            "application_version": VERSION,
            "enable_patching": True,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
            "notification_coalesce_sec": _SLOW_SECONDS,
            "scheduler_polling_interval_sec": _SLOW_SECONDS,
            "run_migrations": False,
        }
        DBOS(config=config)
        for name, perform in kinds.items():
            self._register(name, perform)
        # None: what is claimed, and when, is decided here.
        DBOS.listen_queues([])
        DBOS.launch()
        self._taking.start()

    def _register(self, name: str, perform: Perform) -> None:
        def carry_out(payload: Mapping[str, Json]) -> Mapping[str, Json]:
            try:
                return perform(str(DBOS.workflow_id), payload)
            finally:
                self.claims.wake()

        DBOS.workflow(name=name, max_recovery_attempts=_RECOVERIES)(carry_out)

    def send_log(self, run: str, path: str, start: int, content: bytes) -> bool:
        """Send a part of a log; tell whether the database took it."""
        values = (run, self._worker, path, start, content)
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(_INSERT_LOG, values)
        except SQLAlchemyError:
            return False
        return True

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Have the driver's own connection, in one transaction. Raises: SQLAlchemyError, psycopg.Error."""
        with self._engine.begin() as connection:
            driver = connection.connection.driver_connection
            if not isinstance(driver, psycopg.Connection):
                raise Fault("The engine has no connection of psycopg.")
            yield driver

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. Raises: SQLAlchemyError if the database does not answer."""
        with self._engine.begin() as connection:
            done = connection.exec_driver_sql(sql, values)
            return [tuple(row) for row in done] if done.returns_rows else []

    def ask(self, sql: str, values: Sequence[Any], /) -> Sequence[Sequence[Any]] | None:
        """Return the rows of a statement, or None if the database does not answer."""
        try:
            return self.rows(sql, *values)
        except SQLAlchemyError:
            return None

    def forget(self, runs: Sequence[str]) -> None:
        """Remove runs that ended long ago: their leader did not live to do it."""
        DBOS.delete_workflows(list(runs))

    def drain(self) -> None:
        """Take no further run, and return when those that are active have ended."""
        self.claims.stop()
        while self.claims.busy():
            threading.Event().wait(0.1)

    def close(self) -> None:
        """Let go of the database."""
        DBOS.destroy(destroy_registry=True)
        self._engine.dispose()
