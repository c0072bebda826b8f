"""What became of the runs of tickets, in a SQLite file that can be read while they go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.storage.small_database import SmallDatabase
from aop.core.errors import Json, TicketRunNotFound
from aop.core.ids import RunId

ACTIVE, BROKEN = "active", "broken"

_SHAPE = 3
"""The shape of the file. Number 0 kept tickets as they were, secrets included; numbers of runs were counted until 2."""
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, ticket TEXT NOT NULL,
    payload TEXT NOT NULL, began TEXT NOT NULL, ended TEXT, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
    run_id TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (run_id, name));
CREATE INDEX IF NOT EXISTS runs_of_ticket ON runs (ticket, kind, state);
CREATE TABLE IF NOT EXISTS deliveries (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, ticket TEXT NOT NULL, run_id TEXT NOT NULL, sent INTEGER NOT NULL,
    at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS numbers (
    kind TEXT NOT NULL, ticket TEXT NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (kind, ticket));
INSERT OR IGNORE INTO numbers SELECT kind, ticket, COUNT(*) FROM runs GROUP BY kind, ticket;
CREATE INDEX IF NOT EXISTS deliveries_of_ticket ON deliveries (ticket, kind);
CREATE INDEX IF NOT EXISTS runs_by_state ON runs (state);
"""


class TicketLedger(SmallDatabase):
    """Implements `aop.tickets.steps.Ledger`. What it is told to keep must be without secrets."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SHAPE, _bring_to_shape)

    @property
    def working_folder(self) -> Path:
        """Return the folder with what runs that go on need."""
        return self.path.parent / "runs"

    def opened(self, kind: str, ticket: str, at: str) -> RunId:
        """Return the run of a ticket that has not ended; else a new one."""
        with self.transaction() as rows:
            return open_run(rows, kind, ticket, at)[0]

    def active(self) -> list[tuple[str, str, RunId]]:
        """Return the kind, the ticket and the id of each run that has not ended, the oldest first."""
        with self.transaction() as rows:
            query = "SELECT kind, ticket, run_id FROM runs WHERE state = ? ORDER BY number"
            return [(row["kind"], row["ticket"], RunId(row["run_id"])) for row in rows.execute(query, [ACTIVE])]

    def took(self, run_id: RunId, ticket: Json) -> None:
        """Keep the ticket as a run began with it."""
        with self.transaction() as rows:
            kept = msgspec.json.encode(ticket).decode()
            rows.execute("UPDATE runs SET payload = ? WHERE run_id = ?", [kept, run_id])

    def is_active(self, run_id: RunId) -> bool:
        """Tell whether a run has not ended."""
        with self.transaction() as rows:
            query = "SELECT 1 FROM runs WHERE run_id = ? AND state = ?"
            return rows.execute(query, [run_id, ACTIVE]).fetchone() is not None

    def unfinished(self, kind: str, ticket: str) -> bool:
        """Tell whether a run of a ticket was interrupted."""
        with self.transaction() as rows:
            query = "SELECT 1 FROM runs WHERE kind = ? AND ticket = ? AND state = ?"
            return rows.execute(query, [kind, ticket, ACTIVE]).fetchone() is not None

    def step_done(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        with self.transaction() as rows:
            kept = msgspec.json.encode(outcome).decode()
            rows.execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)", [run_id, name, at, kept])

    def ended(self, run_id: RunId, at: str, state: str) -> None:
        with self.transaction() as rows:
            rows.execute(
                "UPDATE runs SET state = ?, ended = ? WHERE run_id = ? AND state = ?", [state, at, run_id, ACTIVE]
            )

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs, the newest first."""
        with self.transaction() as rows:
            query = "SELECT run_id, kind, ticket, began, ended, state FROM runs ORDER BY number DESC"
            return [dict(row) for row in rows.execute(query)]

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run with its steps, in the order in which they were done.

        Raises: TicketRunNotFound.
        """
        with self.transaction() as rows:
            query = "SELECT run_id, kind, ticket, began, ended, state, payload FROM runs WHERE run_id = ?"
            found = rows.execute(query, [run_id]).fetchone()
            steps = rows.execute("SELECT name, at, outcome FROM steps WHERE run_id = ? ORDER BY rowid", [run_id])
            done = [{**dict(row), "outcome": msgspec.json.decode(row["outcome"])} for row in steps]
        if found is None:
            raise TicketRunNotFound(f"There is no run `{run_id}`.", run=run_id)
        shown = dict(found)
        return {**shown, "payload": msgspec.json.decode(shown["payload"]), "steps": done}

    def ended_before(self, at: str) -> list[RunId]:
        """Return the runs that ended before a moment, the oldest first."""
        if not self.path.exists():
            return []
        with self.transaction() as rows:
            query = "SELECT run_id FROM runs WHERE state != ? AND ended < ? ORDER BY number"
            return [RunId(row["run_id"]) for row in rows.execute(query, [ACTIVE, at])]

    def forget(self, run_id: str) -> None:
        """Remove a run that ended, its steps, and the deliveries that asked for it."""
        with self.transaction() as rows:
            rows.execute("PRAGMA secure_delete = ON")
            if rows.execute("DELETE FROM runs WHERE run_id = ? AND state != ?", [run_id, ACTIVE]).rowcount:
                rows.execute("DELETE FROM steps WHERE run_id = ?", [run_id])
                rows.execute("DELETE FROM deliveries WHERE run_id = ?", [run_id])


def _bring_to_shape(connection: sqlite3.Connection, found: int) -> None:
    connection.executescript(_TABLES)
    if not found:
        connection.execute("UPDATE runs SET payload = 'null'")


def open_run(rows: sqlite3.Connection, kind: str, ticket: str, at: str) -> tuple[RunId, bool]:
    """Return the run of a ticket that has not ended, or a new one; and whether it is new."""
    query = "SELECT run_id FROM runs WHERE kind = ? AND ticket = ? AND state = ?"
    found = rows.execute(query, [kind, ticket, ACTIVE]).fetchone()
    if found is not None:
        return RunId(found["run_id"]), False
    # A number is never used again, not even when its run is forgotten: what it wrote still has its mark.
    rows.execute("INSERT OR IGNORE INTO numbers VALUES (?, ?, 0)", [kind, ticket])
    rows.execute("UPDATE numbers SET last = last + 1 WHERE kind = ? AND ticket = ?", [kind, ticket])
    number = rows.execute("SELECT last FROM numbers WHERE kind = ? AND ticket = ?", [kind, ticket]).fetchone()[0]
    run_id = f"{kind}-{ticket}-{number}"
    rows.execute(
        "INSERT INTO runs (run_id, kind, ticket, payload, began, state) VALUES (?, ?, ?, 'null', ?, ?)",
        [run_id, kind, ticket, at, ACTIVE],
    )
    return RunId(run_id), True
