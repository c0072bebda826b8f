"""SQLite record: one file in WAL mode, with one writer at a time in fair order."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.locks import locked_file
from aop.adapters.storage.full_disk import full_disk
from aop.adapters.storage.record.migrations import MIGRATIONS, migrate, refuse_moved
from aop.adapters.storage.record.views import View, savepoint
from aop.adapters.storage.record.writes import Changes, append_write
from aop.core.errors import Fault, RecordMoved, RecordTooNew
from aop.kernel.record.port import Snapshot, Transaction

_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def can_be_written(record: Path) -> bool:
    """Tell whether a record can be written, or made; this changes nothing."""
    try:
        os.close(os.open(record, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))
    except FileNotFoundError:
        made_in = next(folder for folder in record.parents if folder.is_dir())
        return os.access(made_in, os.W_OK)
    except OSError as error:
        if error.errno in _UNWRITABLE:
            return False
        raise
    return True


def open_to_read(record: Path) -> tuple[SqliteRecord, bool]:
    """Open a record that is only read, and tell whether it is a copy, as on a read-only or a full disk.

    SQLite must write to read its log. A copy is removed when it is closed. Raises: RecordUnavailable, RecordTooNew.
    """
    if can_be_written(record):
        opened = SqliteRecord(record)
        if not record.exists() or opened.can_be_read():
            return opened, False
        opened.close()
    # Few commands meet such a disk.
    from aop.adapters.storage.record.copies import copy_record

    folder = copy_record(record)
    return SqliteRecord(Path(folder.name) / record.name, closing=folder.cleanup), True


class SqliteRecord:
    """Implements `aop.kernel.record.port.Record`."""

    def __init__(self, path: Path, *, closing: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._closing = closing

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        connection = self._connection()
        if self._is_writing():
            yield View(connection)
            return
        connection.execute("BEGIN")
        try:
            refuse_moved(connection)
            yield View(connection)
        finally:
            connection.rollback()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        # Opened before the lock is taken: the first open takes the lock itself, to migrate.
        connection = self._connection()
        if self._is_writing():
            changes: Changes = self._own.changes
            with savepoint(connection, changes, lambda: _check_in_transaction(connection)):
                yield View(connection, changes)
            return
        # SQLite's busy wait starves some writers; a file lock is fair.
        with locked_file(self._lock_path):
            self._own.writing, self._own.changes = True, {}
            try:
                with _transaction(connection, durable=durable):
                    yield View(connection, self._own.changes)
                    _check_in_transaction(connection)
                    append_write(connection, self._own.changes)
            finally:
                self._own.writing = False

    @contextmanager
    def statements(self) -> Iterator[sqlite3.Connection]:
        """Change the tables themselves, as a move does; committed at the end."""
        with self.write():
            yield self._connection()

    def can_be_read(self) -> bool:
        """Tell whether the disk has the space that reading takes. Raises: Fault for any other reason."""
        try:
            with self.read():
                return True
        except (Fault, sqlite3.Error) as fault:
            if full_disk(fault) is None:
                raise
            return False

    def stamp(self) -> object:
        """Return a value that differs after a change: that of the files, which are not opened."""
        return [_stamp_of(self._path.with_name(f"{self._path.name}{end}")) for end in ("", "-wal")]

    def _is_writing(self) -> bool:
        return getattr(self._own, "writing", False)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        self._own = threading.local()
        self._closing()

    def _connection(self) -> sqlite3.Connection:
        existing: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if existing is not None:
            return existing
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=30.0, check_same_thread=False)
        try:
            self._prepare(connection)
        except (sqlite3.Error, Fault) as error:
            connection.close()
            raise Fault(f"The record `{self._path}` cannot be opened: {error}") from error
        except (RecordTooNew, RecordMoved):
            connection.close()
            raise
        self._own.connection = connection
        self._opened.append(connection)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA user_version").fetchone() != (len(MIGRATIONS),):
            with locked_file(self._lock_path):
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA journal_mode = WAL")
                migrate(connection)


def _stamp_of(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


@contextmanager
def _transaction(connection: sqlite3.Connection, *, durable: bool) -> Iterator[None]:
    try:
        # Without a flush the log is still written, and the next flush covers it.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise _write_fault(error) from error
    try:
        refuse_moved(connection)
        yield
        _check_in_transaction(connection)
        try:
            connection.commit()
        except sqlite3.Error as error:
            raise _write_fault(error) from error
    finally:
        if connection.in_transaction:
            connection.rollback()


def _check_in_transaction(connection: sqlite3.Connection) -> None:
    """Raise a fault if SQLite rolled back by itself, as it does on a full or broken disk."""
    if not connection.in_transaction:
        raise _write_fault("SQLite rolled the transaction back")


def _write_fault(why: object) -> Fault:
    return Fault(f"The record cannot be written: {why}")
