"""The one SQLite file in which LOCAL keeps tickets, comments, merge requests and notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

FILE = "local.db"

_TABLES = """
CREATE TABLE IF NOT EXISTS tickets (
    key TEXT PRIMARY KEY, summary TEXT NOT NULL, description TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS comments (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL REFERENCES tickets (key), body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS projects (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS merge_requests (
    project TEXT NOT NULL, number INTEGER NOT NULL, source_branch TEXT NOT NULL, target_branch TEXT NOT NULL,
    title TEXT NOT NULL, description TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (project, number));
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL,
    path TEXT, line INTEGER);
"""


class Answered(Exception):
    """What LOCAL answers with, in place of what was asked for: an HTTP status, and words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")


class LocalDatabase:
    """A folder's database; each use is one transaction."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside, or nothing."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=10.0)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
