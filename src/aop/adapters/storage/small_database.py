"""Small database: a SQLite file for several processes, one transaction a use."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class SmallDatabase:
    """The file, made and migrated at its first use; usable from any thread."""

    def __init__(self, path: Path, shape: int, bring_to_shape: Callable[[sqlite3.Connection, int], object]) -> None:
        self.path = path
        self._shape = shape
        self._bring_to_shape = bring_to_shape
        # Threads that wait here continue sooner than in SQLite, which sleeps.
        self._turn = threading.Lock()
        self._held: sqlite3.Connection | None = None

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Use one connection meanwhile: closing the last one makes SQLite clean up each time."""
        with closing(self._connect()) as connection:
            self._held = connection
            try:
                yield
            finally:
                with self._turn:
                    self._held = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside, or nothing."""
        with self._turn:
            connection = self._held or self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if connection is not self._held:
                    connection.close()

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60.0, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != self._shape:
            connection.execute("PRAGMA journal_mode = WAL")
            self._bring_to_shape(connection, found)
            connection.execute(f"PRAGMA user_version = {self._shape}")
        return connection
