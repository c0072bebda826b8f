"""SQLite record: one file in WAL mode, with one writer at a time in fair order."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from aop.adapters.files.locks import locked_file
from aop.adapters.storage.full_disk import full_disk
from aop.adapters.storage.record.migrations import MIGRATIONS, migrate
from aop.adapters.storage.record.rows import CLAIM, ENTRY, OPERATION, document_of, entry_of, json_text, operation_of
from aop.adapters.storage.record.writes import (
    Changes,
    answered_operation,
    append_write,
    digest_of_text,
    document_name,
    read_writes,
    stored_digests,
)
from aop.core.errors import Fault, Json, RecordTooNew
from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import (
    Claim,
    Event,
    JournalEntry,
    Operation,
    Snapshot,
    Transaction,
    Unshown,
    UnshownKind,
    WriteEntry,
)

D = TypeVar("D", bound=Document)
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
            yield _View(connection)
            return
        connection.execute("BEGIN")
        try:
            yield _View(connection)
        finally:
            connection.rollback()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        # Opened before the lock is taken: the first open takes the lock itself, to migrate.
        connection = self._connection()
        if self._is_writing():
            changes: Changes = self._own.changes
            with _savepoint(connection, changes):
                yield _View(connection, changes)
            return
        # SQLite's busy wait starves some writers; a file lock is fair.
        with locked_file(self._lock_path):
            self._own.writing, self._own.changes = True, {}
            try:
                with _transaction(connection, durable=durable):
                    yield _View(connection, self._own.changes)
                    _check_in_transaction(connection)
                    append_write(connection, self._own.changes)
            finally:
                self._own.writing = False

    def can_be_read(self) -> bool:
        """Tell whether the disk has the space that reading takes. Raises: Fault for any other reason."""
        try:
            with self.read():
                return True
        except (Fault, sqlite3.Error) as fault:
            if full_disk(fault) is None:
                raise
            return False

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
        except RecordTooNew:
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


@contextmanager
def _transaction(connection: sqlite3.Connection, *, durable: bool) -> Iterator[None]:
    try:
        # Without a flush the log is still written, and the next flush covers it.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise _write_fault(error) from error
    try:
        yield
        _check_in_transaction(connection)
        try:
            connection.commit()
        except sqlite3.Error as error:
            raise _write_fault(error) from error
    finally:
        if connection.in_transaction:
            connection.rollback()


@contextmanager
def _savepoint(connection: sqlite3.Connection, changes: Changes) -> Iterator[None]:
    # Outside a transaction a savepoint would start one and commit it.
    _check_in_transaction(connection)
    connection.execute("SAVEPOINT part")
    before = dict(changes)
    try:
        yield
    except BaseException:
        changes.clear()
        changes.update(before)
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    _check_in_transaction(connection)
    connection.execute("RELEASE part")


def _check_in_transaction(connection: sqlite3.Connection) -> None:
    """Raise a fault if SQLite rolled back by itself, as it does on a full or broken disk."""
    if not connection.in_transaction:
        raise _write_fault("SQLite rolled the transaction back")


def _write_fault(why: object) -> Fault:
    return Fault(f"The record cannot be written: {why}")


class _View:
    """Implements both `Snapshot` and `Transaction`; the caller's type decides which it is used as."""

    def __init__(self, connection: sqlite3.Connection, changes: Changes | None = None) -> None:
        self._sql = connection
        self._changes: Changes = {} if changes is None else changes

    def get(self, shape: type[D], key: str) -> D | None:
        row = self._sql.execute("SELECT body FROM documents WHERE kind = ? AND key = ?", (shape.kind, key)).fetchone()
        return None if row is None else document_of(shape, key, row[0])

    def all(self, shape: type[D], prefix: str = "") -> Iterator[D]:
        # A range on the primary key; no text has a character after the last one of Unicode.
        sql = "SELECT key, body FROM documents WHERE kind = ? AND key >= ? AND key < ? || char(1114111) ORDER BY key"
        rows = self._sql.execute(sql, (shape.kind, prefix, prefix))
        return (document_of(shape, key, body) for key, body in rows.fetchall())

    def put(self, document: Document, key: str) -> None:
        body = msgspec.json.encode(document).decode()
        if document.is_checked:
            document_of(type(document), key, body)
        row = (document.version, body, document.kind, key)
        if document.version == 1:
            sql = "INSERT OR IGNORE INTO documents (version, body, kind, key) VALUES (?, ?, ?, ?)"
            done = self._sql.execute(sql, row)
        else:
            sql = "UPDATE documents SET version = ?, body = ? WHERE kind = ? AND key = ? AND version = ?"
            done = self._sql.execute(sql, (*row, document.version - 1))
        if done.rowcount != 1:
            raise Fault(f"The {document.kind} `{key}` is not at version {document.version - 1}.")
        self._changes[document_name(document.kind, key)] = digest_of_text(body)

    def remove(self, shape: type[Document], key: str) -> None:
        done = self._sql.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (shape.kind, key))
        if done.rowcount:
            self._changes[document_name(shape.kind, key)] = None

    def operation(self, operation_id: OperationId) -> Operation | None:
        row = self._sql.execute(f"{OPERATION} WHERE operation_id = ?", (operation_id,)).fetchone()
        return None if row is None else operation_of(row)

    def pending_operations(self) -> tuple[Operation, ...]:
        return tuple(
            operation_of(row) for row in self._sql.execute(f"{OPERATION} WHERE answer IS NULL ORDER BY number")
        )

    def enter_operation(self, operation: Operation) -> None:
        sql = "INSERT INTO operations (operation_id, tool, payload_hash, actor) VALUES (?, ?, ?, ?)"
        self._sql.execute(sql, (operation.operation_id, operation.tool, operation.payload_hash, operation.actor))

    def intend(self, operation_id: OperationId, intent: Mapping[str, Json]) -> None:
        self._change_pending("UPDATE operations SET intent = ?", (json_text(intent),), operation_id)

    def finish_operation(self, operation_id: OperationId, answer: Mapping[str, Json]) -> None:
        self._change_pending("UPDATE operations SET answer = ?", (json_text(answer),), operation_id)
        name, digest = answered_operation(self._sql, operation_id)
        self._changes[name] = digest

    def withdraw_operation(self, operation_id: OperationId) -> None:
        self._change_pending("DELETE FROM operations", (), operation_id)

    def _change_pending(self, change: str, values: tuple[str, ...], operation_id: OperationId) -> None:
        done = self._sql.execute(f"{change} WHERE operation_id = ? AND answer IS NULL", (*values, operation_id))
        if done.rowcount != 1:
            raise Fault(f"The operation `{operation_id}` is not pending.")

    def append(self, event: Event) -> JournalEntry:
        last = self._sql.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
        seq, previous = (last[0] + 1, last[1]) if last else (1, FIRST_HASH)
        entry = JournalEntry(seq=seq, event=event, previous_hash=previous, hash=chained_hash(seq, event, previous))
        self._sql.execute(
            "INSERT INTO journal (seq, kind, at, actor, operation_id, feature_id, payload, previous_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(seq, event.kind, event.at, event.actor, event.operation_id, event.feature_id),
                *(json_text(event.payload), previous, entry.hash),
            ),
        )
        return entry

    def journal(
        self,
        *,
        after: int = 0,
        feature_id: FeatureId | None = None,
        kinds: Sequence[str] = (),
        newest: int | None = None,
        limit: int = -1,
    ) -> Iterator[JournalEntry]:
        sql = f"{ENTRY} WHERE seq > ?"
        values: list[int | str] = [after]
        if feature_id is not None:
            sql, values = f"{sql} AND feature_id = ?", [*values, feature_id]
        if kinds:
            sql, values = f"{sql} AND kind IN ({', '.join('?' * len(kinds))})", [*values, *kinds]
        if newest is None:
            rows = self._sql.execute(f"{sql} ORDER BY seq LIMIT ?", [*values, limit]).fetchall()
            return (entry_of(row) for row in rows)
        last = self._sql.execute(f"{sql} ORDER BY seq DESC LIMIT ?", [*values, newest]).fetchall()
        return (entry_of(row) for row in reversed(last))

    def writes(self, *, after: int = 0, limit: int = -1) -> Iterator[WriteEntry]:
        return read_writes(self._sql, after=after, limit=limit)

    def stored_digests(self) -> Iterator[tuple[str, str]]:
        return stored_digests(self._sql)

    def set_claims(self, feature_id: FeatureId, claims: Sequence[Claim]) -> None:
        self._sql.execute("DELETE FROM claims WHERE feature_id = ?", (feature_id,))
        self._sql.executemany(
            "INSERT OR IGNORE INTO claims (kind, key, feature_id, text, is_pattern) VALUES (?, ?, ?, ?, ?)",
            [(claim.kind, claim.key, claim.feature_id, claim.text, claim.is_pattern) for claim in claims],
        )

    def claims_near(self, kind: str, keys: Sequence[str]) -> tuple[Claim, ...]:
        found = set(self._sql.execute(f"{CLAIM} WHERE kind = ? AND is_pattern = 1", (kind,)))
        plain = f"{CLAIM} WHERE kind = ? AND is_pattern = 0"
        # `0` follows `/` in ASCII: the half-open range holds exactly what lies below the folder.
        below = f"{plain} AND key >= ? || '/' AND key < ? || '0'"
        for key in keys:
            found.update(self._sql.execute(below, (kind, key, key)) if key else self._sql.execute(plain, (kind,)))
            for folder in _with_folders_above(key):
                found.update(self._sql.execute(f"{plain} AND key = ?", (kind, folder)))
        return tuple(
            Claim(kind=row[0], key=row[1], feature_id=row[2], text=row[3], is_pattern=bool(row[4]))
            for row in sorted(found)
        )

    def unshown(self) -> tuple[Unshown, ...]:
        rows = self._sql.execute("SELECT kind, key, stamp FROM unshown ORDER BY kind, key").fetchall()
        return tuple(Unshown(kind=kind, key=key, stamp=stamp) for kind, key, stamp in rows)

    def mark_unshown(self, kind: UnshownKind, key: str) -> None:
        # Each stamp is new and never used again.
        self._sql.execute("INSERT OR REPLACE INTO unshown (kind, key) VALUES (?, ?)", (kind, key))

    def mark_shown(self, what: Unshown, hashes: Mapping[str, str]) -> None:
        sql = "DELETE FROM unshown WHERE kind = ? AND key = ? AND stamp = ?"
        self._sql.execute(sql, (what.kind, what.key, what.stamp))
        self._sql.executemany("INSERT OR REPLACE INTO shown (path, sha256) VALUES (?, ?)", sorted(hashes.items()))

    def forget_shown(self, paths: Sequence[str]) -> None:
        self._sql.executemany("DELETE FROM shown WHERE path = ?", [(path,) for path in paths])

    def shown_below(self, folder: str) -> tuple[str, ...]:
        # A range as in `claims_near`.
        sql = "SELECT path FROM shown WHERE path >= ? || '/' AND path < ? || '0' ORDER BY path"
        return tuple(path for (path,) in self._sql.execute(sql, (folder, folder)))

    def shown_hash(self, path: str) -> str | None:
        row = self._sql.execute("SELECT sha256 FROM shown WHERE path = ?", (path,)).fetchone()
        return None if row is None else str(row[0])


def _with_folders_above(key: str) -> Iterator[str]:
    """Return the key and every folder above it, from the root (empty)."""
    parts = key.split("/")
    return ("/".join(parts[:depth]) for depth in range(len(parts) + 1))
