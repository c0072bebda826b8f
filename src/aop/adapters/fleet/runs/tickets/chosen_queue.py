"""Chosen queue: the queue `tickets`, where the settings name a platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aop.adapters.storage.record.choice import DATABASE

if TYPE_CHECKING:
    from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue


def ticket_queue(environ: Mapping[str, str]) -> TicketQueue | None:
    """Return the queue `tickets`; None without a database, or in one without it. Raises: DatabaseUnavailable."""
    if "://" not in environ.get(DATABASE, ""):
        return None
    # Who has no database pays nothing for this.
    from aop.adapters.fleet.connections import platform_address
    from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue

    queue = TicketQueue(platform_address(environ))
    return queue if queue.is_there() else None
