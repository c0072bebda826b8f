"""Database of LOCAL: tickets, comments, merge requests and notes."""

from __future__ import annotations

from pathlib import Path

from aop.adapters.storage.small_database import SmallDatabase

FILE = "local.db"
_SHAPE = 2

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
CREATE TABLE IF NOT EXISTS approvals (
    project TEXT NOT NULL, number INTEGER NOT NULL, head TEXT NOT NULL, PRIMARY KEY (project, number, head));
"""


class LocalAnswer(Exception):
    """An error of LOCAL: an HTTP status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")


class LocalDatabase(SmallDatabase):
    """The database of one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / FILE, _SHAPE, lambda connection, _found: connection.executescript(_TABLES))
