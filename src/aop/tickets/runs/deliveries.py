"""Deliveries by webhook: each is stored with its run, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.core.errors import WebhookNotKept, WebhookQueueFull
from aop.core.ids import RunId
from aop.tickets.runs.storage import RunLedger
from aop.tickets.webhook_deliveries import IgnoredDelivery, TicketRequest

ACCEPTED, DUPLICATE, RUNNING = "accepted", "duplicate", "running"


class AcceptedDelivery(Struct, frozen=True, kw_only=True):
    """A delivery with its run: a new one, or one that exists already."""

    status: str
    run_id: RunId


def accept_delivery(
    ledger: RunLedger, kind: str, wanted: TicketRequest, names: Sequence[str], *, at: str, most_waiting: int
) -> AcceptedDelivery | IgnoredDelivery:
    """Store a delivery, and open a run for it. Raises: WebhookQueueFull, WebhookNotKept; then nothing is stored."""
    try:
        with ledger.deliveries() as rows:
            known = next((run_id for name in names if (run_id := rows.run_of(kind, name))), None)
            if known is not None:
                return AcceptedDelivery(status=DUPLICATE, run_id=known)
            if 0 < wanted.sent < rows.newest_sent(kind, wanted.key):
                return IgnoredDelivery(reason="A newer delivery for this ticket has arrived.")
            waiting = rows.count_active()
            run_id, is_new = rows.open_run(kind, wanted.key, at)
            if is_new and waiting >= most_waiting:
                raise WebhookQueueFull(f"{waiting} ticket runs are waiting already.", waiting=waiting)
            rows.add(kind, wanted.key, names, run_id, sent=wanted.sent, at=at)
            return AcceptedDelivery(status=ACCEPTED if is_new else RUNNING, run_id=run_id)
    except OSError as error:
        raise WebhookNotKept("The delivery could not be stored.") from error
