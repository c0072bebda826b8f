"""Sessions of a meter: a local endpoint in front of a provider, for one agent."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from aop.adapters.machine.sockets import LOOPBACK, ListeningSocket, loopback_socket
from aop.adapters.models.metering.dialects import DIALECTS
from aop.adapters.models.metering.forwarder import AT_ONCE, Forwarder, MeteredSession, ProviderEndpoint, RequestTimeouts
from aop.adapters.models.metering.requests import SessionTerms
from aop.adapters.models.metering.tallies import Caps, MeterReport, Tally
from aop.brains.prices import Prices
from aop.kernel.record.documents.usage import Usage

_WAITING = 128
AT_MOST = 32
"""The open connections; each may hold the body of a request."""
_ENDING_SECONDS = 0.02
_IN_TROUBLE = "The provider of its model is in trouble."
_IDLE_SECONDS = 120
"""Longer than clients keep a connection, so that a reused one is still open."""


class Meter:
    """An open endpoint; the agent gets only `base_url` and `placeholder_key`."""

    def __init__(self, base_url: str, placeholder_key: str, tally: Tally) -> None:
        self.base_url = base_url
        self.placeholder_key = placeholder_key
        self._tally = tally

    def report(self) -> MeterReport:
        """Return the counts so far."""
        return self._tally.report()

    def ends_early(self, watch: Callable[[float], str]) -> Callable[[float], str]:
        """Return a watch that also ends the turn when the provider has a trouble that does not pass in it."""
        return lambda silent: watch(silent) or (_IN_TROUBLE if self._tally.ending_trouble() is not None else "")


@contextmanager
def open_meter(
    upstream: ProviderEndpoint,
    *,
    prices: Prices,
    caps: Caps | None = None,
    timeouts: RequestTimeouts | None = None,
    keep: Callable[[Usage], None] = lambda _usage: None,
    provider_tools: bool = False,
) -> Iterator[Meter]:
    """Open a local endpoint in front of a provider's; at the end, open requests are cancelled.

    `keep` gets the usage so far after each request. `provider_tools` allows the provider's own tools.
    """
    terms = SessionTerms(
        dialect=DIALECTS[upstream.provider],
        provider=upstream.provider,
        key=f"aop-{secrets.token_urlsafe(24)}",
        provider_tools=provider_tools,
    )
    session = MeteredSession(
        upstream=upstream,
        terms=terms,
        tally=Tally(caps or Caps(), prices, keep, host=upstream.host),
        timeouts=timeouts or RequestTimeouts(),
        clock=time.monotonic,
    )
    listening = loopback_socket(0)
    # From here on a client waits instead of being refused.
    listening.listen(_WAITING)
    base_url = f"http://{LOOPBACK}:{listening.getsockname()[1]}{terms.dialect.prefix}"
    server = _Server(session)
    thread = threading.Thread(target=server.run, args=([listening],), name="aop-meter", daemon=True)
    thread.start()
    try:
        yield Meter(base_url, session.placeholder, session.tally)
    finally:
        server.should_exit = True
        thread.join()


class _Server(uvicorn.Server):
    """Serves one session in the thread that runs it."""

    def __init__(self, session: MeteredSession) -> None:
        timeouts = session.timeouts
        timeout = httpx2.Timeout(timeouts.silence_seconds, connect=timeouts.connect_seconds)
        limits = httpx2.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
        self._forwarder = Forwarder(session, self._client)
        super().__init__(
            uvicorn.Config(
                self._forwarder,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_IDLE_SECONDS,
                limit_concurrency=AT_MOST,
            )
        )

    async def shutdown(self, sockets: list[ListeningSocket] | None = None) -> None:
        """Cancel open requests, then close."""
        ending = asyncio.create_task(self._end_connections())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()
        await self._client.aclose()

    async def _end_connections(self) -> None:
        """Abort all connections, repeatedly: a client that neither reads nor closes would stay forever."""
        while True:
            await self._forwarder.end_all()
            for connection in self.server_state.connections:
                connection.transport.abort()
            await asyncio.sleep(_ENDING_SECONDS)


class _Connection(H11Protocol):
    """Logs only exceptions; broken answers are counted instead."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = logging.getLogger("uvicorn.error.metering")
        self.logger.addFilter(_is_fault)


def _is_fault(record: logging.LogRecord) -> bool:
    return record.exc_info is not None
