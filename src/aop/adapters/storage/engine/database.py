"""Database file of the engine, complete or absent.

DBOS makes its tables one by one and cannot continue after a kill, so they are made in a copy.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from dbos import DBOS
from sqlalchemy import event
from sqlalchemy.pool import Pool

SQLITE_WITH_SUBSECONDS = (3, 42)


def bring_up_to_date(path: Path) -> None:
    """Migrate the file to the installed DBOS, in a copy that replaces it; no other process may use it."""
    if _shape_of(path) == installed_shape():
        return
    made = path.with_name(f"{path.name}.new")
    _remove(made)
    if path.exists():
        _copy(path, made)
    DBOS.migrate(f"sqlite:///{made}")
    with closing(sqlite3.connect(made)) as connection:
        connection.execute(f"PRAGMA user_version = {installed_shape()}")
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    descriptor = os.open(made, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    os.replace(made, path)


def supply_subseconds() -> None:
    """Add `unixepoch('subsec')`, on which DBOS relies, to connections of an SQLite too old to have it."""
    if sqlite3.sqlite_version_info < SQLITE_WITH_SUBSECONDS and not event.contains(Pool, "connect", _add_unixepoch):
        event.listen(Pool, "connect", _add_unixepoch)


def installed_shape() -> int:
    """Return the number that marks a file of the installed version."""
    major, minor, patch = (int(part) for part in version("dbos").split(".")[:3])
    return major * 1_000_000 + minor * 1_000 + patch


def _add_unixepoch(connection: object, _record: object) -> None:
    # A leader has connections to PostgreSQL too.
    if isinstance(connection, sqlite3.Connection):
        connection.create_function("unixepoch", 1, _unixepoch)


def _unixepoch(modifier: str) -> float:
    if modifier != "subsec":
        raise ValueError(modifier)
    return time.time()


def _shape_of(path: Path) -> int:
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as connection:
        (shape,) = connection.execute("PRAGMA user_version").fetchone()
    return int(shape)


def _copy(path: Path, made: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(made)) as target:
        source.backup(target)
        # A log left beside the old file would be taken for a part of the new one.
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
