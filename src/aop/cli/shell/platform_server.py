"""Server of a platform: pages, metrics and webhooks over HTTP on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from starlette.routing import Route

from aop.adapters.fleet.connections import connect
from aop.adapters.fleet.platform import Platform
from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue
from aop.adapters.machine.sockets import ListeningSocket
from aop.adapters.storage.full_disk import full_disk
from aop.adapters.storage.record.postgres.all_records import AllRecords
from aop.adapters.tickets.setup.settings import webhook_settings
from aop.cli.shell.platform_home import PlatformHome
from aop.core.clock import timestamp
from aop.core.errors import DatabaseRights, PlatformMissing, WorkerVersion
from aop.core.redaction.redactor import Redactor
from aop.kernel.gateway.tokens import Reach
from aop.kernel.record.platforms import Fleet
from aop.mcpserver.http import origin_of, serve_routes
from aop.web.platform.overview import Overview
from aop.web.platform.platform_door import PlatformDoor
from aop.web.platform.platform_routes import platform_routes
from aop.web.webhooks import DeliveryRuns, WebhookIntake, webhook_routes
from aop.wiring.build import make_ready_for_threads
from aop.wiring.server_lease import hold_server_lease


def serve_platform(
    home: PlatformHome, listening: ListeningSocket, *, announce: Callable[[str], None], log: Callable[[str], None]
) -> None:
    """Serve all repositories of a database until a signal arrives."""
    make_ready_for_threads()
    # A database that cannot be reached is told at once, and not by each page.
    connect(home.url).close()
    origin, stopping, records, now = origin_of(listening), asyncio.Event(), AllRecords(home.url), home.tokens.clock.now
    overview = Overview(records, partial(_fleet, home.url), partial(_tickets, home.url), now, time.monotonic)
    redact = Redactor(home.settings.secrets)
    door = PlatformDoor(overview, home.sessions, origin, log, redact=redact, full_disk=full_disk)
    try:
        with _webhooks(home) as webhooks, hold_server_lease(home.folder, origin, timestamp(now())):
            routes = [*webhooks, *platform_routes(door, home.title.rpartition("/")[2], stopping)]
            serve_routes(routes, home.tokens, listening, announce=announce, stopping=stopping)
    finally:
        records.close()


@contextmanager
def _webhooks(home: PlatformHome) -> Iterator[list[Route]]:
    """Yield the endpoints, disabled without a secret; the process that serves them carries out no run itself."""
    wanted = webhook_settings(home.settings.environ)
    if not wanted.secret:
        yield webhook_routes(None)
        return
    clock = home.tokens.clock
    with TicketQueue(home.url) as queue:
        runs = DeliveryRuns(ledger=queue.ledger, submit=queue.submit, refusals={})

        def runs_of(_ticket: str) -> DeliveryRuns:
            # Looked at each time: the queues may be made, and rights be given, while this server runs.
            queue.check()
            return runs

        with suppress(PlatformMissing, DatabaseRights):
            queue.check()
            for kind, ticket, run_id in queue.ledger.active():
                # A server stored it, and did not live to queue it.
                queue.submit(kind, run_id, ticket)
        intake = WebhookIntake(
            secret=wanted.secret,
            rules=wanted.rules,
            most_waiting=wanted.most_waiting,
            runs_of=runs_of,
            now=lambda: timestamp(clock.now()),
        )
        yield webhook_routes(intake)


def _tickets(url: str) -> Sequence[Mapping[str, Any]]:
    """Return the runs of tickets of a database, newest first; none if it has no queue for them."""
    with TicketQueue(url) as queue:
        return queue.ledger.runs() if queue.is_there() else ()


def _fleet(url: str, reach: Reach) -> Fleet:
    """Return the queues and workers of a database; none if it has no queues."""
    with Platform(url) as platform:
        try:
            platform.check()
        except PlatformMissing:
            return Fleet()
        except WorkerVersion:
            # Of another shape are the runs, not the tables that tell of them.
            pass
        return Fleet(
            queues=platform.queues(None if reach.everything else reach.repositories),
            workers=platform.workers(),
            stranded=platform.stranded() if reach.everything else 0,
        )
