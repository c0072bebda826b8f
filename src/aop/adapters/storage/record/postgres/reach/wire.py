"""Wire: statements of one connection, several of them in one round trip.

It speaks to libpq through psycopg's `pq` module, because a cursor costs more processor time than the statement that it
runs. Statements are prepared at first use. Values are sent as text, and the server infers their types.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from aop.core.errors import Fault

Connection = psycopg.Connection[tuple[Any, ...]]
MOST_PREPARED = 200
"""Further statements of a connection are sent with their text each time."""
_OK, _ROWS, _SYNC = ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.PIPELINE_SYNC
_ALIVE, _OFF = ConnStatus.OK, PipelineStatus.OFF


def changing_one(sql: str) -> str:
    """Return a change that fails unless it changes a row: what follows it in the same round trip is not run then."""
    return f"WITH changed AS ({sql} RETURNING 1) SELECT 1 / count(*) FROM changed"  # noqa: S608 (our own text)


class Statement:
    """A statement, and its answer once it was run. Raises: Fault for a value that cannot be sent."""

    __slots__ = ("fault", "rows", "sql", "values")

    def __init__(self, sql: str, values: Sequence[Any] = (), *, fault: str = "") -> None:
        self.sql = sql
        self.values: Sequence[bytes | None] = _encoded(values) if values else ()
        self.fault = fault
        """The message if a statement of `changing_one` changed no row."""
        self.rows: ResultRows | None = None

    def row(self) -> tuple[Any, ...] | None:
        """Return the next row of the answer."""
        return None if self.rows is None else self.rows.fetchone()


class ResultRows:
    """The answer to a statement; implements `aop.adapters.storage.record.sql.Rows`."""

    __slots__ = ("_left", "_result")

    def __init__(self, result: PGresult, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        self._result = result
        self._left = iter(rows)

    @property
    def rowcount(self) -> int:
        return self._result.command_tuples or 0

    @property
    def command(self) -> bytes:
        """Return the word with which the server says what it did."""
        return self._result.command_status or b""

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._left, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._left)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._left


class Wire:
    """A connection on which statements are run; one thread at a time uses it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._libpq = connection.pgconn
        self._names: dict[str, bytes] = {}
        """Of the statements that are prepared."""
        self._count = 0
        """Of all names that were ever given."""
        self._unread: list[Statement] = []
        """Statements that were sent, and whose answers nobody waits for."""
        self._loader = Transformer(connection)
        self._answers = select.poll()
        self._answers.register(self._libpq.socket, select.POLLIN)

    @property
    def status(self) -> TransactionStatus:
        """Return the state of the transaction."""
        return TransactionStatus(self._libpq.transaction_status)

    @property
    def is_usable(self) -> bool:
        """Tell whether the connection is alive, and all answers were read."""
        return self._libpq.status == _ALIVE and self._libpq.pipeline_status == _OFF

    def run(self, statements: Sequence[Statement]) -> None:
        """Run statements in one round trip; each has its answer then.

        What follows a statement that fails is not run. Raises: psycopg.Error; Fault for a change that found no row.
        """
        sent: list[Statement] = []
        self._send_all(statements, sent)
        if self._unread:
            self._unread.clear()
            # Up to the end of what was sent before.
            list(self._results())
        failed: tuple[Statement, PGresult] | None = None
        for statement, result in zip(sent, self._results(), strict=True):
            if result.status == _ROWS:
                statement.rows = ResultRows(result, self._loaded(result))
            elif result.status == _OK:
                statement.rows = ResultRows(result)
            else:
                failed = failed or (statement, result)
        self._libpq.exit_pipeline_mode()
        if failed is not None:
            raise self._error_of(*failed, sent)

    def send(self, statement: Statement) -> None:
        """Send a statement without waiting for its answer, which is read and left aside by the next `run`."""
        self._send_all([statement], self._unread)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _loaded(self, result: PGresult) -> list[tuple[Any, ...]]:
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    def _send_all(self, statements: Sequence[Statement], sent: list[Statement]) -> None:
        """Send statements that are answered together; note what will be answered."""
        if self._libpq.pipeline_status == _OFF:
            self._libpq.enter_pipeline_mode()
        for statement in statements:
            self._send(statement, sent)
        self._libpq.pipeline_sync()
        self._flush()

    def _send(self, statement: Statement, sent: list[Statement]) -> None:
        """Send a statement, and its preparation before its first use; note what will be answered."""
        sql = statement.sql
        name = self._names.get(sql)
        if name is None and len(self._names) < MOST_PREPARED:
            self._count += 1
            name = self._names[sql] = f"aop_{self._count}".encode()
            self._libpq.send_prepare(name, sql.encode())
            sent.append(Statement(sql))
        if name is None:
            self._libpq.send_query_params(sql.encode(), statement.values)
        else:
            self._libpq.send_query_prepared(name, statement.values)
        sent.append(statement)

    def _error_of(self, statement: Statement, result: PGresult, sent: Sequence[Statement]) -> Exception:
        """Return what a statement failed with; those after it were not prepared either."""
        for unanswered in sent:
            if unanswered.rows is None:
                self._names.pop(unanswered.sql, None)
        error = _error_in(result)
        no_row = isinstance(error, psycopg.errors.DivisionByZero) and statement.fault
        return Fault(statement.fault) if no_row else error

    def _flush(self) -> None:
        while self._libpq.flush():
            both = select.poll()
            both.register(self._libpq.socket, select.POLLIN | select.POLLOUT)
            if any(happened & select.POLLIN for _, happened in both.poll()):
                self._libpq.consume_input()

    def _results(self) -> Iterator[PGresult]:
        """Yield one result for each thing that was sent; Python's other threads run meanwhile."""
        libpq = self._libpq
        while True:
            while libpq.is_busy():
                self._answers.poll()
                libpq.consume_input()
            result = libpq.get_result()
            if result is None:
                if libpq.status != _ALIVE:
                    raise psycopg.OperationalError("the connection was lost")
                continue
            status = result.status
            if status == _SYNC:
                return
            if status == ExecStatus.FATAL_ERROR and libpq.status != _ALIVE:
                raise _error_in(result)
            yield result


def _encoded(values: Sequence[Any]) -> list[bytes | None]:
    encoded = [None if value is None else str(value).encode() for value in values]
    if b"\0" in b"".join(filter(None, encoded)):
        # libpq would send what is before it.
        raise Fault("The record cannot be used: a text has a character that PostgreSQL cannot hold.")
    return encoded


def _error_in(result: PGresult) -> psycopg.Error:
    code = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message or b"the connection was lost"
    try:
        kind = psycopg.errors.lookup(code)
    except KeyError:
        kind = psycopg.DatabaseError if code else psycopg.OperationalError
    return kind(message.decode("utf-8", "replace").strip())
