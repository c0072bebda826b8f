"""Deliveries of a tracker, each taken once: it opens a run in the transaction that remembers the delivery."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from aop.adapters.tickets.ledger import ACTIVE, TicketLedger, open_run
from aop.core.errors import WebhookNotKept, WebhookQueueFull
from aop.core.ids import RunId
from aop.tickets.webhook_deliveries import Ignored, WorkWanted

ACCEPTED, DUPLICATE, RUNNING = "accepted", "duplicate", "running"


class Taken(Struct, frozen=True, kw_only=True):
    """What became of a delivery: the run that it opened, or another that stands for it."""

    status: str
    run_id: RunId


def take(
    ledger: TicketLedger, kind: str, wanted: WorkWanted, names: Sequence[str], *, at: str, most_waiting: int
) -> Taken | Ignored:
    """Take a delivery, by all names that it is known by.

    Raises: WebhookQueueFull, WebhookNotKept; then nothing was written.
    """
    try:
        return _taken(ledger, kind, wanted, names, at=at, most_waiting=most_waiting)
    except (OSError, sqlite3.Error) as error:
        raise WebhookNotKept("The delivery could not be written down.") from error


def _taken(
    ledger: TicketLedger, kind: str, wanted: WorkWanted, names: Sequence[str], *, at: str, most_waiting: int
) -> Taken | Ignored:
    with ledger.transaction() as rows:
        for name in names:
            known = rows.execute("SELECT run_id FROM deliveries WHERE name = ?", [f"{kind}:{name}"]).fetchone()
            if known is not None:
                return Taken(status=DUPLICATE, run_id=RunId(known["run_id"]))
        newest = "SELECT MAX(sent) FROM deliveries WHERE kind = ? AND ticket = ?"
        if 0 < wanted.sent < (rows.execute(newest, [kind, wanted.key]).fetchone()[0] or 0):
            return Ignored(reason="A newer delivery of this ticket came before.")
        waiting = rows.execute("SELECT COUNT(*) FROM runs WHERE state = ?", [ACTIVE]).fetchone()[0]
        run_id, is_new = open_run(rows, kind, wanted.key, at)
        if is_new and waiting >= most_waiting:
            raise WebhookQueueFull(f"{waiting} runs of tickets wait already.", waiting=waiting)
        rows.executemany(
            "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?)",
            [[f"{kind}:{name}", kind, wanted.key, run_id, wanted.sent, at] for name in names],
        )
    return Taken(status=ACCEPTED if is_new else RUNNING, run_id=run_id)
