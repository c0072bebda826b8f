"""Tickets of LOCAL, with comments and a workflow of four states."""

from __future__ import annotations

import sqlite3

from aop.adapters.tickets.systems.local.database import LocalAnswer, LocalDatabase
from aop.core.errors import Json

STATES = ("To Do", "In Progress", "In Review", "Done")


class LocalTickets:
    """The tracker tools of LOCAL."""

    def __init__(self, database: LocalDatabase) -> None:
        self._database = database

    def create(self, key: str, summary: str, description: str) -> Json:
        """Create a ticket in the first state."""
        with self._database.transaction() as rows:
            if rows.execute("SELECT 1 FROM tickets WHERE key = ?", [key]).fetchone():
                raise LocalAnswer(409, f"the ticket `{key}` already exists")
            rows.execute("INSERT INTO tickets VALUES (?, ?, ?, ?)", [key, summary, description, STATES[0]])
        return self.get(key)

    def get(self, key: str) -> Json:
        """Return a ticket with its comments."""
        with self._database.transaction() as rows:
            ticket = _ticket(rows, key)
            found = rows.execute("SELECT body FROM comments WHERE key = ? ORDER BY id", [key])
            return {**dict(ticket), "comments": [row["body"] for row in found]}

    def add_comment(self, key: str, body: str) -> Json:
        """Add a comment."""
        with self._database.transaction() as rows:
            _ticket(rows, key)
            made = rows.execute("INSERT INTO comments (key, body) VALUES (?, ?)", [key, body])
            return {"id": made.lastrowid}

    def set_description(self, key: str, description: str) -> Json:
        """Replace the description."""
        with self._database.transaction() as rows:
            _ticket(rows, key)
            rows.execute("UPDATE tickets SET description = ? WHERE key = ?", [description, key])
        return {"key": key}

    def transitions(self, key: str) -> Json:
        """Return the transitions of a ticket, to each other state."""
        with self._database.transaction() as rows:
            status = _ticket(rows, key)["status"]
        return [{"id": at, "name": state, "to": state} for at, state in enumerate(STATES) if state != status]

    def transition(self, key: str, transition_id: int) -> Json:
        """Move a ticket."""
        if not 0 <= transition_id < len(STATES):
            raise LocalAnswer(400, f"there is no transition {transition_id}")
        with self._database.transaction() as rows:
            _ticket(rows, key)
            rows.execute("UPDATE tickets SET status = ? WHERE key = ?", [STATES[transition_id], key])
        return {"key": key, "status": STATES[transition_id]}


def _ticket(rows: sqlite3.Connection, key: str) -> sqlite3.Row:
    found: sqlite3.Row | None = rows.execute("SELECT * FROM tickets WHERE key = ?", [key]).fetchone()
    if found is None:
        raise LocalAnswer(404, f"there is no ticket `{key}`")
    return found
