"""Connections of the server: dropped when a client does not send what it began."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0
"""The time for the head of a request, from the connection or from the response before it."""
BODY_SECONDS = 60.0
MOST_CONNECTIONS = 512
"""Half of the files that a process may usually open; one more connection is dropped."""
_LOOK_SECONDS = 1.0


class WatchedConnection(H11Protocol):
    """One connection; uvicorn itself waits for ever for a request that never ends."""

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._seen: tuple[object, object] = (None, h11.IDLE)
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch a client, or drop it."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        # After an upgrade to a WebSocket, another protocol has the transport.
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        now, seen = self.loop.time(), (self.cycle, self.conn.their_state)
        if seen != self._seen:
            self._seen, self._since = seen, now
        allowed = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(self.conn.their_state)
        if allowed is not None and now - self._since >= allowed:
            self.transport.abort()
        else:
            self.loop.call_later(_LOOK_SECONDS, self._look)
