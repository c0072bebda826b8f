"""Platform ledger: the ticket runs of all machines, in one database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, TypeVar

import msgspec
import psycopg
from sqlalchemy import exc

from aop.adapters.fleet.connections import Connection, first_line
from aop.core.errors import DatabaseRights, Json, TicketRunNotFound
from aop.core.ids import RunId
from aop.tickets.runs.storage import ACTIVE, FAILED, StorageFailed

T = TypeVar("T")
Transaction: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Opens a connection in a transaction, which is kept or undone as a whole."""
_AGAIN_SECONDS = 0.2


class PlatformLedger:
    """Implements `RunLedger` and `RunHistory` of `aop.tickets.runs.storage`. Callers mask secrets before they store.

    One that is patient waits for a database that is gone: a worker without it goes on, or ends as a whole.
    """

    def __init__(self, transaction: Transaction, *, is_patient: bool = False) -> None:
        self._transaction = transaction
        self._is_patient = is_patient

    @contextmanager
    def deliveries(self) -> Iterator[PlatformDeliveryRows]:
        try:
            with self._transaction() as rows:
                yield PlatformDeliveryRows(rows)
        except (psycopg.Error, exc.SQLAlchemyError) as error:
            raise _failed(error) from error

    def open_run(self, kind: str, ticket: str, at: str) -> RunId:
        return self._do(lambda rows: PlatformDeliveryRows(rows).open_run(kind, ticket, at)[0])

    def active(self) -> list[tuple[str, str, RunId]]:
        query = "SELECT kind, ticket, run_id FROM fleet.ticket_runs WHERE state = %s ORDER BY number"
        return [(kind, ticket, RunId(run_id)) for kind, ticket, run_id in self._rows(query, ACTIVE)]

    def is_active(self, run_id: RunId) -> bool:
        """Tell whether a run has no answer yet; one that a worker ended a moment before its death is ended again."""
        return bool(self._rows("SELECT 1 FROM fleet.ticket_runs WHERE run_id = %s AND answer IS NULL", run_id))

    def has_active_run(self, kind: str, ticket: str) -> bool:
        query = "SELECT 1 FROM fleet.ticket_runs WHERE kind = %s AND ticket = %s AND state = %s"
        return bool(self._rows(query, kind, ticket, ACTIVE))

    def record_ticket(self, run_id: RunId, ticket: Json) -> None:
        self._rows("UPDATE fleet.ticket_runs SET payload = %s WHERE run_id = %s", _json(ticket), run_id)

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        self._rows(
            "INSERT INTO fleet.ticket_steps (run_id, name, at, outcome) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (run_id, name) DO UPDATE SET at = excluded.at, outcome = excluded.outcome",
            run_id, name, at, _json(outcome),
        )  # fmt: skip

    def record_end(self, run_id: RunId, at: str, state: str) -> None:
        self._rows(
            "UPDATE fleet.ticket_runs SET state = %s, ended = %s WHERE run_id = %s AND state = %s",
            state, at, run_id, ACTIVE,
        )  # fmt: skip

    def record_answer(self, run_id: RunId, answer: Json) -> None:
        """Store what the person who asked is told; the first answer stays."""
        query = "UPDATE fleet.ticket_runs SET answer = %s WHERE run_id = %s AND answer IS NULL"
        self._rows(query, _json(answer), run_id)

    def answer(self, run_id: RunId) -> Any:
        """Return the answer of a run; None while it has none."""
        found = self._rows("SELECT answer FROM fleet.ticket_runs WHERE run_id = %s AND answer IS NOT NULL", run_id)
        return msgspec.json.decode(found[0][0]) if found else None

    def has_left(self, kind: str, ticket: str, step: str) -> bool:
        found = self._rows(
            "SELECT s.outcome FROM fleet.ticket_runs r JOIN fleet.ticket_steps s USING (run_id)"
            " WHERE r.kind = %s AND r.ticket = %s AND r.state = %s AND s.name = %s",
            kind, ticket, FAILED, step,
        )  # fmt: skip
        return any("value" in msgspec.json.decode(outcome) for (outcome,) in found)

    def runs(self) -> list[dict[str, Any]]:
        return [_shown(row[:-1]) for row in self._rows(f"{_RUNS} ORDER BY number DESC")]

    def run(self, run_id: str) -> dict[str, Any]:
        found = self._rows(f"{_RUNS} WHERE run_id = %s", run_id)
        if not found:
            raise TicketRunNotFound(f"There is no run `{run_id}`.", run=run_id)
        steps = self._rows("SELECT name, at, outcome FROM fleet.ticket_steps WHERE run_id = %s ORDER BY number", run_id)
        done = [{"name": name, "at": at, "outcome": msgspec.json.decode(outcome)} for name, at, outcome in steps]
        return {**_shown(found[0][:-1]), "payload": msgspec.json.decode(found[0][-1]), "steps": done}

    def dry_runs(self) -> list[dict[str, Any]]:
        """Return none: they are kept on the machine that made them."""
        return []

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        def act(rows: Connection) -> list[tuple[Any, ...]]:
            done = rows.execute(sql, values)
            return done.fetchall() if done.description else []

        return self._do(act)

    def _do(self, act: Callable[[Connection], T]) -> T:
        while True:
            try:
                with self._transaction() as rows:
                    return act(rows)
            except (psycopg.Error, exc.SQLAlchemyError) as error:
                if not (self._is_patient and _is_outage(error)):
                    raise _failed(error) from error
                time.sleep(_AGAIN_SECONDS)


class PlatformDeliveryRows:
    """Implements `aop.tickets.runs.storage.DeliveryRows`."""

    def __init__(self, rows: Connection) -> None:
        self._rows = rows

    def run_of(self, kind: str, name: str) -> RunId | None:
        query = "SELECT run_id FROM fleet.ticket_deliveries WHERE name = %s"
        found = self._rows.execute(query, (f"{kind}:{name}",)).fetchone()
        return None if found is None else RunId(found[0])

    def newest_sent(self, kind: str, ticket: str) -> int:
        query = "SELECT coalesce(max(sent), 0) FROM fleet.ticket_deliveries WHERE kind = %s AND ticket = %s"
        return self._number(query, kind, ticket)

    def count_active(self) -> int:
        return self._number("SELECT count(*) FROM fleet.ticket_runs WHERE state = %s", ACTIVE)

    def open_run(self, kind: str, ticket: str, at: str) -> tuple[RunId, bool]:
        # Others that ask for this ticket wait here until this transaction ends.
        self._rows.execute(
            "INSERT INTO fleet.ticket_numbers AS n (kind, ticket, last) VALUES (%s, %s, 0)"
            " ON CONFLICT (kind, ticket) DO UPDATE SET last = n.last",
            (kind, ticket),
        )
        query = "SELECT run_id FROM fleet.ticket_runs WHERE kind = %s AND ticket = %s AND state = %s"
        found = self._rows.execute(query, (kind, ticket, ACTIVE)).fetchone()
        if found is not None:
            return RunId(found[0]), False
        # A number is never used again, and other ledgers count the runs of the same ticket from 1 too.
        query = (
            "UPDATE fleet.ticket_numbers SET last = last + 1 WHERE kind = %s AND ticket = %s"
            " RETURNING last || '-' || (SELECT name FROM fleet.ticket_ledger)"
        )
        (number,) = self._rows.execute(query, (kind, ticket)).fetchall()[0]
        run_id = RunId(f"{kind}-{ticket}-{number}")
        self._rows.execute(
            "INSERT INTO fleet.ticket_runs (run_id, kind, ticket, began, state) VALUES (%s, %s, %s, %s, %s)",
            (run_id, kind, ticket, at, ACTIVE),
        )
        return run_id, True

    def add(self, kind: str, ticket: str, names: Sequence[str], run_id: RunId, *, sent: int, at: str) -> None:
        for name in names:
            self._rows.execute(
                "INSERT INTO fleet.ticket_deliveries (name, kind, ticket, run_id, sent, at)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                (f"{kind}:{name}", kind, ticket, run_id, sent, at),
            )

    def _number(self, sql: str, *values: object) -> int:
        row = self._rows.execute(sql, values).fetchone()
        return int(row[0]) if row else 0


_RUNS = "SELECT run_id, kind, ticket, began, ended, state, payload FROM fleet.ticket_runs"


def _shown(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("run_id", "kind", "ticket", "began", "ended", "state"), row, strict=True))


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _is_outage(error: Exception) -> bool:
    """Tell whether a database that is back would have answered."""
    # SQLAlchemy says of itself that no connection of its pool became free in time.
    return isinstance(_cause(error), psycopg.OperationalError | psycopg.InterfaceError | exc.TimeoutError)


def _failed(error: Exception) -> StorageFailed | DatabaseRights:
    if isinstance(_cause(error), psycopg.errors.InsufficientPrivilege):
        return DatabaseRights(first_line(error))
    return StorageFailed(f"The ledger of ticket runs: {first_line(error)}")


def _cause(error: Exception) -> object:
    """Return what the driver said, where SQLAlchemy has wrapped it."""
    return error.orig if isinstance(error, exc.DBAPIError) else error
