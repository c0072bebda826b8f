"""Ledger of ticket runs: a SQLite file that can be read while they go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.storage.small_database import SmallDatabase
from aop.core.errors import Json, TicketRunNotFound
from aop.core.ids import RunId
from aop.tickets.runs.storage import ACTIVE, FAILED, StorageFailed

LEDGER = ".aop/tickets/ledger.db"
"""The ledger of a repository, from its root."""
_SHAPE = 5
"""The version of the file. Version 0 stored tickets with their secrets; until 2 the number of a run was counted; until
3 the runs of two ledgers could have the same id; until 4 dry runs were not kept."""
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
CREATE TABLE IF NOT EXISTS dry_runs (
    kind TEXT NOT NULL, ticket TEXT NOT NULL, at TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY (kind, ticket));
CREATE TABLE IF NOT EXISTS identity (name TEXT NOT NULL);
INSERT INTO identity SELECT lower(hex(randomblob(4))) WHERE NOT EXISTS (SELECT 1 FROM identity);
"""


class TicketLedger(SmallDatabase):
    """Implements `RunLedger` and `RunHistory` of `aop.tickets.runs.storage`. Callers mask secrets before they store."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SHAPE, _bring_to_shape)

    @property
    def working_folder(self) -> Path:
        """Return the folder with the steps of the runs that have not ended."""
        return self.path.parent / "runs"

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with super().transaction() as rows:
                yield rows
        except sqlite3.Error as error:
            raise StorageFailed(f"The ledger of ticket runs: {error}.") from error

    @contextmanager
    def deliveries(self) -> Iterator[SqlDeliveryRows]:
        with self.transaction() as rows:
            yield SqlDeliveryRows(rows)

    def open_run(self, kind: str, ticket: str, at: str) -> RunId:
        with self.deliveries() as rows:
            return rows.open_run(kind, ticket, at)[0]

    def active(self) -> list[tuple[str, str, RunId]]:
        with self.transaction() as rows:
            query = "SELECT kind, ticket, run_id FROM runs WHERE state = ? ORDER BY number"
            return [(row["kind"], row["ticket"], RunId(row["run_id"])) for row in rows.execute(query, [ACTIVE])]

    def is_active(self, run_id: RunId) -> bool:
        with self.transaction() as rows:
            query = "SELECT 1 FROM runs WHERE run_id = ? AND state = ?"
            return rows.execute(query, [run_id, ACTIVE]).fetchone() is not None

    def has_active_run(self, kind: str, ticket: str) -> bool:
        with self.transaction() as rows:
            return _active_run(rows, kind, ticket) is not None

    def record_ticket(self, run_id: RunId, ticket: Json) -> None:
        with self.transaction() as rows:
            text = msgspec.json.encode(ticket).decode()
            rows.execute("UPDATE runs SET payload = ? WHERE run_id = ?", [text, run_id])

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        with self.transaction() as rows:
            text = msgspec.json.encode(outcome).decode()
            rows.execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)", [run_id, name, at, text])

    def record_end(self, run_id: RunId, at: str, state: str) -> None:
        with self.transaction() as rows:
            rows.execute(
                "UPDATE runs SET state = ?, ended = ? WHERE run_id = ? AND state = ?", [state, at, run_id, ACTIVE]
            )

    def has_left(self, kind: str, ticket: str, step: str) -> bool:
        with self.transaction() as rows:
            query = (
                "SELECT outcome FROM runs JOIN steps USING (run_id)"
                " WHERE kind = ? AND ticket = ? AND state = ? AND name = ?"
            )
            found = [msgspec.json.decode(row["outcome"]) for row in rows.execute(query, [kind, ticket, FAILED, step])]
        return any("value" in outcome for outcome in found)

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs, the newest first."""
        if not self.path.exists():
            return []
        with self.transaction() as rows:
            query = "SELECT run_id, kind, ticket, began, ended, state FROM runs ORDER BY number DESC"
            return [dict(row) for row in rows.execute(query)]

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run with its steps, in the order in which they were done. Raises: TicketRunNotFound."""
        if not self.path.exists():
            raise TicketRunNotFound(f"There is no run `{run_id}`.", run=run_id)
        with self.transaction() as rows:
            query = "SELECT run_id, kind, ticket, began, ended, state, payload FROM runs WHERE run_id = ?"
            found = rows.execute(query, [run_id]).fetchone()
            steps = rows.execute("SELECT name, at, outcome FROM steps WHERE run_id = ? ORDER BY rowid", [run_id])
            done = [{**dict(row), "outcome": msgspec.json.decode(row["outcome"])} for row in steps]
        if found is None:
            raise TicketRunNotFound(f"There is no run `{run_id}`.", run=run_id)
        shown = dict(found)
        return {**shown, "payload": msgspec.json.decode(shown["payload"]), "steps": done}

    def record_dry_run(self, kind: str, ticket: str, at: str, result: Json) -> None:
        """Keep what a dry run would have written, in place of the one before."""
        with self.transaction() as rows:
            text = msgspec.json.encode(result).decode()
            rows.execute("INSERT OR REPLACE INTO dry_runs VALUES (?, ?, ?, ?)", [kind, ticket, at, text])

    def dry_runs(self) -> list[dict[str, Any]]:
        """Return the last dry run of each kind of work on each ticket, the newest first."""
        if not self.path.exists():
            return []
        with self.transaction() as rows:
            found = rows.execute("SELECT kind, ticket, at, result FROM dry_runs ORDER BY at DESC, ticket")
            return [{**dict(row), "result": msgspec.json.decode(row["result"])} for row in found]

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


def _active_run(rows: sqlite3.Connection, kind: str, ticket: str) -> RunId | None:
    query = "SELECT run_id FROM runs WHERE kind = ? AND ticket = ? AND state = ?"
    found = rows.execute(query, [kind, ticket, ACTIVE]).fetchone()
    return None if found is None else RunId(found["run_id"])


class SqlDeliveryRows:
    """Implements `aop.tickets.runs.storage.DeliveryRows`."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows

    def run_of(self, kind: str, name: str) -> RunId | None:
        query = "SELECT run_id FROM deliveries WHERE name = ?"
        found = self._rows.execute(query, [f"{kind}:{name}"]).fetchone()
        return None if found is None else RunId(found["run_id"])

    def newest_sent(self, kind: str, ticket: str) -> int:
        query = "SELECT MAX(sent) FROM deliveries WHERE kind = ? AND ticket = ?"
        return self._rows.execute(query, [kind, ticket]).fetchone()[0] or 0

    def count_active(self) -> int:
        count: int = self._rows.execute("SELECT COUNT(*) FROM runs WHERE state = ?", [ACTIVE]).fetchone()[0]
        return count

    def open_run(self, kind: str, ticket: str, at: str) -> tuple[RunId, bool]:
        found = _active_run(self._rows, kind, ticket)
        if found is not None:
            return found, False
        # A number is never used again, even after its run is deleted: what the run wrote still has its marker.
        self._rows.execute("INSERT OR IGNORE INTO numbers VALUES (?, ?, 0)", [kind, ticket])
        self._rows.execute("UPDATE numbers SET last = last + 1 WHERE kind = ? AND ticket = ?", [kind, ticket])
        query = "SELECT last FROM numbers WHERE kind = ? AND ticket = ?"
        number = self._rows.execute(query, [kind, ticket]).fetchone()[0]
        # Another machine has a ledger of its own, and counts the runs of the same ticket from 1 too.
        ledger = self._rows.execute("SELECT name FROM identity").fetchone()[0]
        run_id = RunId(f"{kind}-{ticket}-{number}-{ledger}")
        self._rows.execute(
            "INSERT INTO runs (run_id, kind, ticket, payload, began, state) VALUES (?, ?, ?, 'null', ?, ?)",
            [run_id, kind, ticket, at, ACTIVE],
        )
        return run_id, True

    def add(self, kind: str, ticket: str, names: Sequence[str], run_id: RunId, *, sent: int, at: str) -> None:
        self._rows.executemany(
            "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?)",
            [[f"{kind}:{name}", kind, ticket, run_id, sent, at] for name in names],
        )
