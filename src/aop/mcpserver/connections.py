"""Connections of the server: dropped when a client does not send what it began."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0
"""The time for the head of a request, from the connection or from its first byte."""
IDLE_SECONDS = 75
"""The time in which a client may begin its next request: clients keep a connection, many for a minute."""
BODY_SECONDS = 60.0
MOST_CONNECTIONS = 512
"""Half of the files that a process may usually open; one more connection is dropped."""
_LOOK_SECONDS = 1.0


class WatchedConnection(H11Protocol):
    """One connection; uvicorn itself waits for ever for a request that never ends."""

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._seen: tuple[object, object, bool] = (None, h11.IDLE, False)
        self._since = self.loop.time()
        self._is_answered = False
        """Whether a request was answered: the client may rest before the next one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch a client, or drop it."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(_LOOK_SECONDS, self._look)

    def on_response_complete(self) -> None:
        """Let the client rest."""
        self._is_answered = True
        super().on_response_complete()

    def _look(self) -> None:
        # After an upgrade to a WebSocket, another protocol has the transport.
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        now, rests = self.loop.time(), self._is_answered and not self.conn.trailing_data[0]
        if (seen := (self.cycle, self.conn.their_state, rests)) != self._seen:
            self._seen, self._since = seen, now
        limits = {h11.IDLE: IDLE_SECONDS if rests else HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}
        allowed = limits.get(self.conn.their_state)
        if allowed is not None and now - self._since >= allowed:
            self.transport.abort()
        else:
            self.loop.call_later(_LOOK_SECONDS, self._look)
