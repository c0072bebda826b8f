"""Migrations of the record, numbered; a released number never changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from aop.adapters.storage.record.writes import adopt_contents
from aop.core.errors import RecordMoved, RecordTooNew

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE journal (
        seq INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        at TEXT NOT NULL,
        actor TEXT NOT NULL,
        operation_id TEXT NOT NULL,
        feature_id TEXT,
        payload TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE INDEX journal_by_feature ON journal (feature_id, seq);
    CREATE TABLE documents (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE TABLE operations (
        number INTEGER PRIMARY KEY,
        operation_id TEXT NOT NULL UNIQUE,
        tool TEXT NOT NULL,
        payload_hash TEXT NOT NULL,
        actor TEXT NOT NULL,
        intent TEXT,
        answer TEXT
    );
    CREATE INDEX operations_pending ON operations (number) WHERE answer IS NULL;
    CREATE TABLE claims (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        feature_id TEXT NOT NULL,
        text TEXT NOT NULL,
        is_pattern INTEGER NOT NULL,
        PRIMARY KEY (kind, is_pattern, key, feature_id, text)
    ) WITHOUT ROWID;
    CREATE INDEX claims_by_feature ON claims (feature_id);
    CREATE TABLE unshown (
        stamp INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        UNIQUE (kind, key)
    );
    CREATE TABLE shown (
        path TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE writes (
        number INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        changes TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    """,
)
MOVED = 0x6D6F7664
"""The number of the shape of a record that was moved away, and that nothing may change any more."""
_TABLES = ("journal", "documents", "operations", "claims", "unshown", "shown", "writes")

THEN: Mapping[int, Callable[[sqlite3.Connection], None]] = {2: adopt_contents}
"""The steps after a script, in its transaction, where SQL alone is not enough."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing migrations in order. Raises: RecordTooNew, RecordMoved."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    refuse_moved(connection)
    if version > len(MIGRATIONS):
        raise RecordTooNew(
            f"The record was made by a newer AOP: it has shape {version}, and this AOP knows up to {len(MIGRATIONS)}.",
            shape=version,
            known_shape=len(MIGRATIONS),
        )
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in script.split(";"):
            connection.execute(statement)
        if number in THEN:
            THEN[number](connection)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.commit()


def refuse_moved(connection: sqlite3.Connection) -> None:
    """Refuse a record that was moved away, maybe since it was opened. Raises: RecordMoved."""
    if connection.execute("PRAGMA user_version").fetchone() == (MOVED,):
        raise RecordMoved("The record of this repository was moved into a database.")


def close_for_good(connection: sqlite3.Connection) -> None:
    """Let nothing change a record any more, inside the transaction that copied it; an older AOP may have it open."""
    for table in _TABLES:
        for change in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER moved_{table}_{change} BEFORE {change} ON {table}"
                " BEGIN SELECT RAISE(ABORT, 'the record was moved into a database: set AOP_DATABASE'); END"
            )
    connection.execute(f"PRAGMA user_version = {MOVED}")
