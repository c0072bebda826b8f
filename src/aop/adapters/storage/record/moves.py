"""Moves of a record between SQLite and PostgreSQL: copied whole, or not at all."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from msgspec import Struct

from aop.adapters.storage.record.migrations import close_for_good
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from aop.adapters.storage.record.rows import CLAIM, ENTRY, OPERATION
from aop.adapters.storage.record.sql import Sql
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.adapters.storage.record.views import View
from aop.core.errors import Fault, RecordMoved, RecordNotEmpty
from aop.kernel.record.chain import PAGE, prove_contents, whole_chain
from aop.kernel.record.port import Snapshot

BATCH = 500


class Table(Struct, frozen=True, kw_only=True):
    """The statements that copy one table; numbers that a database gives out are given out again, in order."""

    select: str
    insert: str
    delete: str


TABLES = (
    Table(
        select=f"{ENTRY} ORDER BY seq",
        insert="INSERT INTO journal (seq, kind, at, actor, operation_id, feature_id, payload, previous_hash, hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        delete="DELETE FROM journal",
    ),
    Table(
        select="SELECT kind, key, version, body FROM documents ORDER BY kind, key",
        insert="INSERT INTO documents (kind, key, version, body) VALUES (?, ?, ?, ?)",
        delete="DELETE FROM documents",
    ),
    Table(
        select=f"{OPERATION} ORDER BY number",
        insert="INSERT INTO operations (operation_id, tool, payload_hash, actor, intent, answer)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        delete="DELETE FROM operations",
    ),
    Table(
        select=f"{CLAIM} ORDER BY kind, key, feature_id, text",
        insert="INSERT INTO claims (kind, key, feature_id, text, is_pattern) VALUES (?, ?, ?, ?, ?)",
        delete="DELETE FROM claims",
    ),
    Table(
        select="SELECT kind, key FROM unshown ORDER BY stamp",
        insert="INSERT INTO unshown (kind, key) VALUES (?, ?)",
        delete="DELETE FROM unshown",
    ),
    Table(
        select="SELECT path, sha256 FROM shown ORDER BY path",
        insert="INSERT INTO shown (path, sha256) VALUES (?, ?)",
        delete="DELETE FROM shown",
    ),
    Table(
        select="SELECT number, seq, changes, previous_hash, hash FROM writes ORDER BY number",
        insert="INSERT INTO writes (number, seq, changes, previous_hash, hash) VALUES (?, ?, ?, ?, ?)",
        delete="DELETE FROM writes",
    ),
)


class Contents(Struct, frozen=True, kw_only=True):
    """How much is in a record, and the ends of its two chains."""

    entries: int
    documents: int
    operations: int
    head: str
    """The hash of the newest entry of the journal; empty for a new record."""
    last_write: str
    """The hash of the newest write."""


def move_to_database(path: Path, place: Place) -> Contents:
    """Copy a record from SQLite into a database, prove both, and let only the database change from then on.

    A move that was interrupted is repeated or finished. Raises: RecordNotEmpty, EvidenceBroken, DatabaseUnavailable.
    """
    target = PostgresRecord(place, serves="arriving")
    source = SqliteRecord(path)
    try:
        _refuse_active(target, place)
        try:
            with source.statements() as old:
                moved = copy_into_database(old, target)
                close_for_good(old)
        except RecordMoved:
            _refuse_active(target, place)
            # Killed between the two: the copy was proven before SQLite was closed.
            with target.read() as view:
                moved = _prove(view)
        target.set_state("active")
        return moved
    finally:
        source.close()
        target.close()


def _refuse_active(target: PostgresRecord, place: Place) -> None:
    """Refuse to touch a record that is in use; it may be one that another process has just moved there."""
    if target.state() == "active":
        raise RecordNotEmpty(f"The database has a record of `{place.name}` already.")


def move_to_file(place: Place, path: Path) -> Contents:
    """Copy a record from a database into a SQLite file, prove both, and let only the file change from then on.

    A move that was interrupted is repeated or finished. Raises: RecordMoved, EvidenceBroken, DatabaseUnavailable.
    """
    arriving = path.with_name(f"{path.name}.arriving")
    source = PostgresRecord(place)
    try:
        if source.state() == "moved":
            moved = _finished_copy(place, arriving)
        else:
            arriving.unlink(missing_ok=True)
            with source.statements() as old:
                moved = _copy_into_file(old, arriving)
                # In the transaction that was copied: nobody can have written in between.
                old.execute("UPDATE aop.repositories SET state = 'moved' WHERE number = aop.own_number()")
    finally:
        source.close()
    _put_in_place(arriving, path)
    return moved


def copy_into_database(old: Sql, target: PostgresRecord) -> Contents:
    """Copy a record that nobody can write now in place of what an interrupted move left."""
    target.set_state("arriving")
    with target.statements() as new:
        for table in TABLES:
            new.execute(table.delete)
        return _copy(old, new)


def _copy_into_file(old: Sql, arriving: Path) -> Contents:
    target = SqliteRecord(arriving)
    try:
        with target.statements() as new:
            moved = _copy(old, new)
    finally:
        target.close()
    # Only the file gets another name; closing it has brought its log in, unless the disk is full.
    if arriving.with_name(f"{arriving.name}-wal").exists():
        raise Fault(f"`{arriving.name}` was not written as a whole; nothing was moved.")
    # The database gives the record up after this.
    _flush(arriving)
    return moved


def _finished_copy(place: Place, arriving: Path) -> Contents:
    """Return the contents of the file of a move that was killed after its copy. Raises: RecordMoved."""
    left = PostgresRecord(place, serves="moved")
    try:
        with left.read() as view:
            before = _prove(view)
    finally:
        left.close()
    if not arriving.exists() or _proven_file(arriving) != before:
        raise RecordMoved("The record of this repository was moved out of the database.")
    return before


def _copy(old: Sql, new: Sql) -> Contents:
    for table in TABLES:
        rows = old.execute(table.select).fetchall()
        for start in range(0, len(rows), BATCH):
            new.executemany(table.insert, rows[start : start + BATCH])
    before, after = _prove(View(old)), _prove(View(new))
    if before != after:
        raise Fault("The copy of the record is not the same as the record; nothing was moved.")
    return after


def _prove(view: Snapshot) -> Contents:
    """Return the contents of a record whose chains hold. Raises: EvidenceBroken."""
    hashes = [entry.hash for entry in whole_chain(lambda after: view.journal(after=after, limit=PAGE))]
    proven = prove_contents(view, hashes)
    return Contents(
        entries=len(hashes),
        documents=proven.documents,
        operations=proven.operations,
        head=hashes[-1] if hashes else "",
        last_write=next((each.hash for each in reversed([*view.writes()])), ""),
    )


def _proven_file(path: Path) -> Contents:
    record = SqliteRecord(path)
    try:
        with record.read() as view:
            return _prove(view)
    finally:
        record.close()


def _put_in_place(arriving: Path, path: Path) -> None:
    """Give the file its name; that of an earlier move is kept under another, and at no moment is there none."""
    if path.exists():
        _take_in_log(path)
        shutil.copyfile(path, path.with_name(f"moved-{path.name}"))
    os.replace(arriving, path)
    _flush(path.parent)
    arriving.with_name(f"{arriving.name}.lock").unlink(missing_ok=True)


def _take_in_log(path: Path) -> None:
    """Leave a file without a log, which would be taken for that of the next file of this name."""
    connection = sqlite3.connect(path)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    finally:
        connection.close()
    if mode != "delete":
        raise Fault(f"Another process still has `{path.name}` open; end it, and repeat the move.")


def _flush(path: Path) -> None:
    """Wait until the disk has a file and its name, or a folder."""
    for each in (path, path.parent):
        opened = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
