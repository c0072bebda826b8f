"""Leadership: the lease of a repository's supervisor, as a row of the database.

The holder beats by the database's clock, and holds a lock that ends with its connection. It is dead without a beat for
3 s, or without one for 1.8 s when its lock is free. A frozen process holds its lock for ever, and one that was killed
frees it at once: so both count. Who takes the place of a dead one ends its connections first, and with them every lock
and every transaction that it holds.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import psycopg

from aop.adapters.machine.supervisor_lease import LeaseHolder, SupervisorLeases, supervisor_running
from aop.adapters.storage.record.postgres.lock_session import SHORT_SILENCE
from aop.adapters.storage.record.postgres.postgres_database import BEGIN, PostgresDatabase
from aop.adapters.storage.record.postgres.reach.wire import Connection, Statement
from aop.core.errors import Fault, Refusal, SupervisorReplaced

BEAT_SECONDS = 0.8
SILENT_SECONDS = 3.0
FREE_SECONDS = 1.8
"""So long must a beat be missing before a free lock counts."""
_LEADERS = 0x616F72
"""The class of the locks of leaders; the second half is in the row. The lock of number 0 guards the row itself."""
IS_LIVING = f"""
    NOT leaders.ended
        AND extract(epoch FROM clock_timestamp() - greatest(leaders.beat, pg_postmaster_start_time())) <= CASE
            WHEN EXISTS (
                SELECT 1 FROM pg_locks
                WHERE locktype = 'advisory' AND objsubid = 2 AND classid = {_LEADERS} AND objid = leaders.lock::oid
            ) THEN {SILENT_SECONDS} ELSE {FREE_SECONDS} END
"""  # noqa: S608 (constants alone)
"""The condition under which the process of a row leads."""
_LIVING = f"""
    SELECT leaders.host, leaders.pid, leaders.note, leaders.process, {IS_LIVING}
    FROM aop.leaders JOIN aop.repositories ON repositories.number = leaders.repository WHERE repositories.name = ?
"""  # noqa: S608 (constants alone)


class _Note(LeaseHolder, frozen=True, kw_only=True):
    """The holder as its row names it."""

    worker: str = ""
    """The worker that started it; empty for a person's process."""


class PostgresLeases:
    """Implements `aop.adapters.machine.supervisor_lease.SupervisorLeases`."""

    def __init__(self, database: PostgresDatabase, name: str, worker: str = "") -> None:
        self.database = database
        self._name = name
        self._worker = worker

    def holder(self) -> LeaseHolder | None:
        row = self._row()
        return _holder_in(row) if row is not None and row[4] else None

    def last_holder(self) -> LeaseHolder | None:
        row = self._row()
        return None if row is None else _holder_in(row)

    @contextmanager
    def take(self) -> Iterator[PostgresLease]:
        lease = PostgresLease(self.database, token=os.urandom(16).hex(), worker=self._worker)
        self._enter(lease)
        lease.begin()
        try:
            yield lease
        finally:
            lease.end()

    def ask_to_stop(self) -> None:
        with self.database.session() as session:
            session.execute(
                "UPDATE aop.leaders SET stop = true FROM aop.repositories"
                " WHERE repositories.number = leaders.repository AND repositories.name = ?",
                (self._name,),
            )
            session.commit()

    def _enter(self, lease: PostgresLease) -> None:
        """Make the row ours. Raises: SupervisorRunning."""
        with self.database.session(
            Statement(BEGIN), Statement(f"SELECT pg_advisory_xact_lock({_LEADERS}, 0)")
        ) as session:
            row = session.execute(_LIVING, (self._name,)).fetchone()
            if row is not None and row[4]:
                raise supervisor_running(_holder_in(row))
            if row is not None:
                session.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = ? AND datname = current_database() AND usename = current_user",
                    (row[3],),
                )
            session.execute(
                "INSERT INTO aop.leaders (repository, token, process, lock, host, pid, note, beat, stop, ended)"
                " SELECT number, ?, ?, ?::integer, ?, ?::integer, ?, clock_timestamp(), false, false"
                " FROM aop.repositories WHERE name = ? ON CONFLICT (repository) DO UPDATE SET"
                " token = excluded.token, process = excluded.process, lock = excluded.lock, host = excluded.host,"
                " pid = excluded.pid, note = excluded.note, beat = excluded.beat, stop = false, ended = false",
                (
                    *(lease.token, self.database.process, lease.lock, socket.gethostname(), os.getpid()),
                    *(lease.note(LeaseHolder(pid=os.getpid(), since="")), self._name),
                ),
            )
            session.commit()

    def _row(self) -> tuple[Any, ...] | None:
        with self.database.session() as session:
            if session.execute("SELECT to_regclass('aop.leaders')").fetchone() == (None,):
                return None
            row: tuple[Any, ...] | None = session.execute(_LIVING, (self._name,)).fetchone()
            return row


class PostgresLease:
    """Implements `aop.adapters.machine.supervisor_lease.SupervisorLease`; a thread beats as long as it is held."""

    def __init__(self, database: PostgresDatabase, *, token: str, worker: str) -> None:
        self._database = database
        self.token = token
        self._worker = worker
        self.lock = int.from_bytes(os.urandom(4), "big") >> 1
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Hold the lock, and beat."""
        connection = self._connected()
        self._ends.clear()
        self._thread = threading.Thread(target=self._beat, args=(connection,), name="beats of the leader", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let others lead at once."""
        if self._thread is None:
            return
        self._pause()
        with suppress(Fault, Refusal), self._database.session() as session:
            session.execute("UPDATE aop.leaders SET ended = true WHERE token = ?", (self.token,))
            session.commit()

    def stop(self) -> None:
        # On a connection of its own: the threads of a process that ends may hold all others.
        with suppress(psycopg.Error, Refusal), self._database.connected(waits=False) as connection:
            connection.execute("UPDATE aop.leaders SET stop = true WHERE token = %s", (self.token,))

    def leave_to_worker(self) -> None:
        self._pause()
        with self._database.session() as session:
            session.execute("UPDATE aop.leaders SET beat = '-infinity', stop = false WHERE token = ?", (self.token,))
            session.commit()

    def sign(self, holder: LeaseHolder) -> None:
        with self._database.session() as session:
            session.execute("UPDATE aop.leaders SET note = ? WHERE token = ?", (self.note(holder), self.token))
            session.commit()

    def note(self, holder: LeaseHolder) -> str:
        """Return the text that names a holder in the row."""
        return msgspec.json.encode(_Note(**msgspec.structs.asdict(holder), worker=self._worker)).decode()

    def leave_to_child(self) -> None:
        self._pause()

    def go_on(self, leases: SupervisorLeases) -> None:
        """Hold it in a child, which has connections of its own. Raises: SupervisorReplaced after too long a time."""
        if not isinstance(leases, PostgresLeases):
            raise Fault("The lease is in a database.")
        self._database = leases.database
        with self._database.session() as session:
            done = session.execute(
                "UPDATE aop.leaders SET process = ?, pid = ?, beat = clock_timestamp() WHERE token = ?",
                (self._database.process, os.getpid(), self.token),
            )
            if done.rowcount != 1:
                raise SupervisorReplaced("Another supervisor has taken over this repository.")
            session.commit()
        self.begin()

    def _pause(self) -> None:
        thread, self._thread = self._thread, None
        self._ends.set()
        if thread is not None:
            thread.join()

    def _connected(self) -> Connection:
        connection = self._database.connected(*SHORT_SILENCE, waits=False)
        connection.execute(f"SELECT pg_try_advisory_lock({_LEADERS}, {self.lock})")
        return connection

    def _beat(self, connection: Connection | None) -> None:
        """Beat until the lease ends or another one leads; a connection that is lost is replaced."""
        while not self._ends.wait(BEAT_SECONDS):
            try:
                connection = connection or self._connected()
                row = connection.execute(
                    "UPDATE aop.leaders SET beat = clock_timestamp() WHERE token = %s RETURNING stop", (self.token,)
                ).fetchone()
            except (psycopg.Error, Refusal):
                # The database is away: whether another one leads now is known when it is back.
                if connection is not None:
                    connection.close()
                connection = None
                continue
            if row is None:
                break
            if row[0]:
                # As `aop stop` on this machine does.
                os.kill(os.getpid(), signal.SIGTERM)
                break
        if connection is not None:
            connection.close()


def _holder_in(row: tuple[Any, ...]) -> LeaseHolder:
    host, pid, note = row[0], row[1], row[2]
    signed = msgspec.json.decode(note, type=LeaseHolder) if note else LeaseHolder(pid=pid, since="")
    own = socket.gethostname()
    return msgspec.structs.replace(signed, pid=pid, host="" if host == own else host)
