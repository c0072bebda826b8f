"""Group commit: the writers of one process take turns inside one transaction, and wait for the disk once for all."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from aop.core.errors import Fault


class _Group:
    """Writers that share a transaction: none is told that it is done before all of it is kept."""

    def __init__(self, connection: sqlite3.Connection, held: ExitStack, *, durable: bool) -> None:
        self.connection = connection
        self.held = held
        self.durable = durable
        self.ended = threading.Event()
        self.error: sqlite3.Error | None = None

    def end(self) -> None:
        """Keep what was written, or note why not."""
        try:
            if not self.connection.in_transaction:
                raise sqlite3.OperationalError("SQLite undid the whole transaction")
            self.connection.commit()
        except sqlite3.Error as error:
            self.error = error
        finally:
            if self.connection.in_transaction:
                self.connection.rollback()
            self.held.close()
            self.ended.set()


class GroupedWriters:
    """Gives the turns; `alone` keeps the writers of other processes out for as long as a transaction lasts."""

    def __init__(
        self, connection: Callable[[], sqlite3.Connection], alone: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """`connection` returns that of the current thread."""
        self._connection = connection
        self._alone = alone
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._coming = 0
        self._open: _Group | None = None

    @contextmanager
    def turn(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Write in turn; what raises is undone alone. Returns when the transaction has ended for all its writers.

        Whoever waits for a turn gets it before the transaction ends, and then waits for its end: nobody comes twice
        before everybody came once, and another process waits for at most one turn of each thread of this one.
        """
        group = self._joined(durable=durable)
        try:
            with _undone_alone(group.connection):
                yield group.connection
        finally:
            if not self._coming or not group.connection.in_transaction:
                self._end(group)
            self._turn.release()
            # Also after an exception: the connection may be this thread's own, and others still write with it.
            group.ended.wait()
        if group.error is not None:
            raise Fault(f"The record cannot be written: {group.error}") from group.error

    def _joined(self, *, durable: bool) -> _Group:
        """Wait for the turn, and take it in a transaction that is kept at least as well as is asked for."""
        self._count(1)
        try:
            self._turn.acquire()
        finally:
            self._count(-1)
        try:
            # How well a transaction is kept is settled when it begins.
            if self._open is not None and durable and not self._open.durable:
                self._end(self._open)
            if self._open is None:
                self._open = self._begun(durable=durable)
        except BaseException:
            self._turn.release()
            raise
        return self._open

    def _begun(self, *, durable: bool) -> _Group:
        # Opened before the lock is taken: the first opening takes it itself, to make the tables.
        connection = self._connection()
        with ExitStack() as held:
            held.enter_context(self._alone())
            # Without waiting for the disk the log is written all the same, and the next wait is for all of it.
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            return _Group(connection, held.pop_all(), durable=durable)

    def _end(self, group: _Group) -> None:
        self._open = None
        group.end()

    def _count(self, change: int) -> None:
        with self._counting:
            self._coming += change


@contextmanager
def _undone_alone(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT turn")
    try:
        yield
    except BaseException:
        # On a full or broken disk SQLite undoes everything by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK TO turn")
            connection.execute("RELEASE turn")
        raise
    connection.execute("RELEASE turn")
