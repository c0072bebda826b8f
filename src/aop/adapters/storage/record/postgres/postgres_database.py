"""PostgreSQL database: sessions on a few connections that are kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from aop.adapters.storage.record.postgres.place import Place
from aop.core.errors import DatabaseRights, DatabaseUnavailable, Fault, Refusal

MOST_CONNECTIONS = 8
"""Of one process; a further thread waits for one."""
CONNECT_SECONDS = 10
ENCODING = "UTF8"
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""Whatever the settings of the database say: a writer must see what was written while it waited for its turn."""
IDLE_SECONDS = 120
"""A process that stops for so long within a change loses it, and with it the lock of the repository."""
Connection = psycopg.Connection[tuple[Any, ...]]


class Session:
    """A connection inside a transaction; implements `Sql`."""

    def __init__(self, connection: Connection, begun: tuple[Any, ...] | None = None) -> None:
        self._connection = connection
        self.begun = begun
        """The row of the last of the statements with which it began; None if it gave none."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            # Without values, a text may hold several statements.
            return self._connection.execute(_translated(sql), values or None)
        except psycopg.Error as error:
            raise _fault(error) from error

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(_translated(sql), rows)
        except psycopg.Error as error:
            raise _fault(error) from error

    def check(self) -> None:
        """Raise a fault if the transaction is gone."""
        if self._connection.info.transaction_status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            raise _fault("the connection was lost")

    def commit(self) -> None:
        """Commit. Raises: Fault, also for a transaction in which a statement failed: `COMMIT` would undo it."""
        if self._connection.info.transaction_status is not TransactionStatus.INTRANS:
            raise _fault("the transaction failed, or the connection was lost")
        try:
            self._connection.execute("COMMIT")
        except psycopg.Error as error:
            raise _fault(error) from error


class PostgresDatabase:
    """One database; threads share its connections."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.process = f"aop {os.urandom(6).hex()}"
        """The name of all connections of this process."""
        self._guard = threading.Lock()
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    @contextmanager
    def session(self, *begin: str) -> Iterator[Session]:
        """Begin a transaction, which is undone unless it was committed. Raises: DatabaseUnavailable."""
        with self._places:
            connection, row = self._begun("; ".join(begin))
            try:
                yield Session(connection, row)
            finally:
                self._give_back(connection)

    def answer(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Return the one row of a statement outside a transaction. Raises: DatabaseUnavailable, Fault."""
        with self.session("SELECT") as session:
            row: tuple[Any, ...] | None = session.execute(sql, values).fetchone()
        if row is None:
            raise _fault("it gave no answer")
        return row

    def connected(self, *first: str) -> Connection:
        """Open a connection that the caller closes, and run statements on it. Raises: DatabaseUnavailable."""
        return self._connected("; ".join(first))[0]

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begun(self, begin: str) -> tuple[Connection, tuple[Any, ...] | None]:
        with self._guard:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return connection, _last_row(connection.execute(begin))
            except psycopg.OperationalError:
                # The server was restarted since then; nothing has happened in this transaction.
                connection.close()
        return self._connected(begin)

    def _connected(self, begin: str) -> tuple[Connection, tuple[Any, ...] | None]:
        connection = None
        try:
            connection = psycopg.connect(
                self._place.url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name=self.process,
                client_encoding=ENCODING,
            )
            _require_encoding(connection, self._place)
            # Not with what begins: undone with that, it would be forgotten.
            connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
            row = _last_row(connection.execute(begin))
        except psycopg.Error as error:
            reason = _reason(error)
            if connection is not None:
                connection.close()
            elif isinstance(error, psycopg.ProgrammingError) or "@" in reason:
                # What cannot be read as an address is quoted, and may be a part of the password.
                reason = "the address cannot be read"
            raise DatabaseUnavailable(self._place.shown, reason) from None
        return connection, row

    def _give_back(self, connection: Connection) -> None:
        try:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
            return
        with self._guard:
            self._idle.append(connection)


def _require_encoding(connection: Connection, place: Place) -> None:
    """Refuse a database that cannot hold every letter. Raises: DatabaseUnavailable."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        connection.close()
        raise DatabaseUnavailable(place.shown, f"its encoding is {encoding}; AOP needs {ENCODING}")


def _last_row(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """Return the row of the last of several statements."""
    while cursor.nextset():
        pass
    return cursor.fetchone() if cursor.description else None


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    """Return a statement of the record in the words of psycopg; it has no `?` but those for values."""
    return sql.replace("?", "%s")


def _reason(error: object) -> str:
    """Return the first line of what the database said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _fault(why: object) -> Fault | Refusal:
    if isinstance(why, psycopg.errors.InsufficientPrivilege):
        return DatabaseRights(_reason(why))
    return Fault(f"The record cannot be used: {_reason(why)}")
