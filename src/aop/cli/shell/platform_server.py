"""Server of a platform: its pages and metrics over HTTP on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from aop.adapters.fleet.connections import connect
from aop.adapters.fleet.platform import Platform
from aop.adapters.machine.sockets import ListeningSocket
from aop.adapters.storage.full_disk import full_disk
from aop.adapters.storage.record.postgres.all_records import AllRecords
from aop.cli.shell.platform_home import PlatformHome
from aop.core.clock import timestamp
from aop.core.errors import PlatformMissing, WorkerVersion
from aop.core.redaction.redactor import Redactor
from aop.kernel.gateway.tokens import Reach
from aop.kernel.record.platforms import Fleet
from aop.mcpserver.http import origin_of, serve_routes
from aop.web.platform.overview import Overview
from aop.web.platform.platform_door import PlatformDoor
from aop.web.platform.platform_routes import platform_routes
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
    overview = Overview(records, partial(_fleet, home.url), now, time.monotonic)
    redact = Redactor(home.settings.secrets)
    door = PlatformDoor(overview, home.sessions, origin, log, redact=redact, full_disk=full_disk)
    try:
        with hold_server_lease(home.folder, origin, timestamp(now())):
            routes = platform_routes(door, home.title.rpartition("/")[2], stopping)
            serve_routes(routes, home.tokens, listening, announce=announce, stopping=stopping)
    finally:
        records.close()


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
