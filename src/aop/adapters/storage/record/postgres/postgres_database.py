"""PostgreSQL database: sessions on a few connections that are kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NoReturn

import psycopg
from psycopg.pq import TransactionStatus

from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.reach.outage import Outage
from aop.adapters.storage.record.postgres.reach.poolers import is_pooled_by_transaction
from aop.adapters.storage.record.postgres.reach.wire import Connection, ResultRows, Statement, Wire, changing_one
from aop.core.errors import DatabaseRights, DatabaseUnavailable, Fault, PoolerUnsupported, RecordLost, Refusal

MOST_CONNECTIONS = 8
"""Of one process; a further thread waits for one."""
CONNECT_SECONDS = 10
SHORT_SILENCE: Mapping[str, Any] = {
    "keepalives_idle": 2,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 6000,
}
"""A cut link is noticed within some seconds, not after the hours that TCP allows; options in the address win."""
ENCODING = "UTF8"
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""Whatever the settings of the database say: a writer must see what was written while it waited for its turn."""
IDLE_SECONDS = 120
"""A process that stops for so long within a change loses it, and with it the lock of the repository."""
MOST_WAITING = 100
"""Changes that wait for the next round trip."""
_CHANGES = ("INSERT ", "UPDATE ", "DELETE ")


class LaterRows:
    """The answer to a change that may wait for the next round trip; implements `Rows`."""

    __slots__ = ("_flush", "_statement")

    def __init__(self, statement: Statement, flush: Callable[[], None]) -> None:
        self._statement = statement
        self._flush = flush

    @property
    def rowcount(self) -> int:
        return self._rows().rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows().fetchone()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows().fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def _rows(self) -> ResultRows:
        if self._statement.rows is None:
            self._flush()
        return self._statement.rows or _no_answer()


class Session:
    """A connection inside a transaction; implements `Sql`.

    A change is sent with the next question or with the commit. So it may fail there; its transaction is undone then.
    """

    def __init__(self, begin: Callable[[Sequence[Statement]], Wire], on_begun: Callable[[], object]) -> None:
        self._begin = begin
        self._on_begun = on_begun
        self._wire: Wire | None = None
        """None until the transaction has begun: with the first statement, or before."""
        self._waiting: list[Statement] = []
        self._depth = 0

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> ResultRows | LaterRows:
        statement = Statement(_translated(sql), values)
        self._waiting.append(statement)
        if sql.startswith(_CHANGES) and len(self._waiting) < MOST_WAITING:
            return LaterRows(statement, self.flush)
        self.flush()
        return statement.rows or _no_answer()

    def ask(self, questions: Sequence[tuple[str, Sequence[Any]]]) -> list[ResultRows]:
        """Run several questions in one round trip."""
        asked = [Statement(_translated(sql), values) for sql, values in questions]
        self._waiting += asked
        self.flush()
        return [statement.rows or _no_answer() for statement in asked]

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> None:
        for values in rows:
            self.execute(sql, values)

    def change_one(self, sql: str, values: Sequence[Any], fault: str) -> None:
        """Change a row; if there is none, the transaction fails with that fault, here or later."""
        self._waiting.append(Statement(_translated(changing_one(sql)), values, fault=fault))

    def run_script(self, script: str) -> None:
        """Run several statements at once."""
        self.flush()
        try:
            self._begun_wire().connection.execute(script)
        except psycopg.Error as error:
            raise self._fault(error) from error

    @contextmanager
    def part(self) -> Iterator[None]:
        """Undo alone what is changed inside, if it raises."""
        self.check()
        self._depth += 1
        # A name for each depth: if this one was never set, because something before it failed, no other is meant.
        name = f"part_{self._depth}"
        savepoint = Statement(f"SAVEPOINT {name}")
        self._waiting.append(savepoint)
        try:
            yield
        except BaseException:
            with suppress(Fault):
                self._undo(savepoint, name)
            raise
        finally:
            self._depth -= 1
        self.check()
        if savepoint in self._waiting:
            self._waiting.remove(savepoint)
        else:
            self._waiting.append(Statement(f"RELEASE {name}"))

    def check(self) -> None:
        """Raise a fault if the transaction is gone."""
        if self._begun_wire().status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            raise self._fault("the connection was lost")

    def flush(self) -> None:
        """Run what waits. Raises: Fault."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._run(waiting)

    def commit(self) -> None:
        """Commit. Raises: Fault, also for a transaction in which a statement failed: `COMMIT` would undo it."""
        if self._begun_wire().status is not TransactionStatus.INTRANS:
            raise self._fault("the transaction failed, or the connection was lost")
        commit = Statement("COMMIT")
        self._waiting.append(commit)
        self.flush()
        if commit.rows is None or commit.rows.command != b"COMMIT":
            raise _fault("the transaction failed")

    def _undo(self, savepoint: Statement, name: str) -> None:
        if savepoint in self._waiting:
            del self._waiting[self._waiting.index(savepoint) :]
            return
        self._waiting.clear()
        self.check()
        self._run([Statement(f"ROLLBACK TO {name}"), Statement(f"RELEASE {name}")])

    def begin(self, statements: Sequence[Statement] = ()) -> None:
        """Begin the transaction, and run its first statements. Raises: DatabaseUnavailable, DatabaseRights, Fault."""
        try:
            self._wire = self._begin(statements)
        except psycopg.Error as error:
            raise self._fault(error) from error
        self._on_begun()

    @property
    def wire(self) -> Wire | None:
        """Return the connection; None before the transaction has begun."""
        return self._wire

    def _begun_wire(self) -> Wire:
        if self._wire is None:
            raise _fault("no transaction has begun")
        return self._wire

    def _run(self, statements: Sequence[Statement]) -> None:
        try:
            if self._wire is None:
                self.begin(statements)
            else:
                self._wire.run(statements)
        except psycopg.Error as error:
            raise self._fault(error) from error

    def _fault(self, why: object) -> Fault | Refusal:
        is_lost = self._wire is not None and not self._wire.is_usable
        return RecordLost(_broken(why)) if is_lost else _fault(why)


class PostgresDatabase:
    """One database; threads share its connections."""

    def __init__(self, place: Place, learn: Callable[[Iterable[str]], None] = lambda _secrets: None) -> None:
        """`learn` is told of the password that opens it, which may be in a file that only the driver reads."""
        self._place = place
        self._learn = learn
        self.process = f"aop {os.urandom(6).hex()}"
        """The name of all connections of this process."""
        self._guard = threading.Lock()
        self._idle: list[Wire] = []
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._keeps_sessions = False
        self.outage: Outage | None = None
        """Waits for a database that is away; without it, a caller is refused at once."""

    @contextmanager
    def session(self, *begin: Statement) -> Iterator[Session]:
        """Begin a transaction, which is undone unless it was committed. Raises: DatabaseUnavailable."""
        with self.later_session(*begin or (Statement(BEGIN),)) as session:
            session.begin()
            yield session

    @contextmanager
    def later_session(self, *begin: Statement, on_begun: Callable[[], object] = lambda: None) -> Iterator[Session]:
        """Begin a transaction together with its first statement; `on_begun` may refuse it then."""
        with self._places:
            session = Session(lambda statements: self._begun([*begin, *statements]), on_begun)
            try:
                yield session
                if session.wire is None:
                    session.begin()
            finally:
                if session.wire is not None:
                    self._give_back(session.wire)

    def answer(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Return the one row of a statement outside a transaction. Raises: DatabaseUnavailable, Fault."""
        statement = Statement(_translated(sql), values)
        with self.session(statement):
            return statement.row() or _no_answer()

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begun(self, begin: Sequence[Statement]) -> Wire:
        with self._guard:
            wire = self._idle.pop() if self._idle else None
        if wire is not None:
            try:
                wire.run(begin)
            except psycopg.OperationalError:
                # The server was restarted since then; nothing has happened in this transaction.
                wire.close()
            except BaseException:
                self._give_back(wire)
                raise
            else:
                return wire
        wire = Wire(self.connected())
        try:
            wire.run(begin)
        except psycopg.Error as error:
            wire.close()
            if self.outage is not None and isinstance(error, psycopg.OperationalError):
                raise RecordLost(_broken(error)) from error
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                raise
            raise DatabaseUnavailable(self._place.shown, _reason(error)) from None
        return wire

    def connected(self, *first: str, waits: bool = True) -> Connection:
        """Open a connection that the caller closes, and run statements on it; wait for an outage to end, if wanted.

        Raises: DatabaseUnavailable, PoolerUnsupported.
        """
        while True:
            try:
                connection = self._opened(*first)
            except DatabaseUnavailable as refusal:
                if self.outage is None or not waits:
                    raise
                self.outage.wait(refusal)
                continue
            if self.outage is not None:
                self.outage.end()
            return connection

    def _opened(self, *first: str) -> Connection:
        connection = None
        try:
            connection = psycopg.connect(
                self._place.url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                application_name=self.process,
                client_encoding=ENCODING,
                prepare_threshold=None,
                **{name: value for name, value in SHORT_SILENCE.items() if f"{name}=" not in self._place.url},
            )
            self._learn(filter(None, [connection.info.password]))
            _require_encoding(connection, self._place)
            self._refuse_pooler(connection)
            # Not with what begins: undone with that, it would be forgotten.
            idle = f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
            connection.execute("; ".join((idle, *first)))
        except psycopg.Error as error:
            reason = _reason(error)
            if connection is not None:
                connection.close()
            elif isinstance(error, psycopg.ProgrammingError) or "@" in reason:
                # What cannot be read as an address is quoted, and may be a part of the password.
                reason = "the address cannot be read"
            raise DatabaseUnavailable(self._place.shown, reason) from None
        return connection

    def _refuse_pooler(self, connection: Connection) -> None:
        """Refuse an address whose sessions do not last; looked at once in a process. Raises: PoolerUnsupported."""
        if self._keeps_sessions:
            return
        if is_pooled_by_transaction(connection, lambda: psycopg.connect(self._place.url, autocommit=True)):
            connection.close()
            raise PoolerUnsupported(self._place.shown)
        self._keeps_sessions = True

    def _give_back(self, wire: Wire) -> None:
        try:
            if not wire.is_usable:
                wire.close()
                return
            if wire.status is not TransactionStatus.IDLE:
                # If the connection is lost meanwhile, its next user finds out.
                wire.send(Statement("ROLLBACK"))
        except psycopg.Error:
            wire.close()
            return
        with self._guard:
            self._idle.append(wire)


def _require_encoding(connection: Connection, place: Place) -> None:
    """Refuse a database that cannot hold every letter. Raises: DatabaseUnavailable."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        connection.close()
        raise DatabaseUnavailable(place.shown, f"its encoding is {encoding}; AOP needs {ENCODING}")


@lru_cache(maxsize=256)
def _translated(sql: str) -> str:
    """Return a statement of the record with numbered values; it has no `?` but those for values."""
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{text}" for number, text in enumerate(rest, start=1))


def _no_answer() -> NoReturn:
    raise _fault("it gave no answer")


def _reason(error: object) -> str:
    """Return the first line of what the database said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _fault(why: object) -> Fault | Refusal:
    if isinstance(why, psycopg.errors.InsufficientPrivilege):
        return DatabaseRights(_reason(why))
    return Fault(_broken(why))


def _broken(why: object) -> str:
    return f"The record cannot be used: {_reason(why)}"
