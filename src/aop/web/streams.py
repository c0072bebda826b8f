"""Streams: responses without an end, for readers that come back with a number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from aop.core.errors import InvalidArguments

SEND_SECONDS = 30.0
"""A reader that takes nothing for so long is dropped."""


class EventStream(StreamingResponse):
    """Server-sent events; dropped if their reader takes nothing any longer."""

    def __init__(
        self, content: AsyncIterator[bytes], *, at_end: Callable[[], None], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, headers=headers, media_type="text/event-stream")
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and tell the end, however it came."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Forbid that anything on the way keeps or collects events."""
        super().init_headers({"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})})

    async def stream_response(self, send: Any) -> None:
        """Send until the reader or the content ends."""

        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


def number_of(last_id: str | None) -> int | None:
    """Return the number of the last event that a reader has; None if it names none. Raises: InvalidArguments."""
    if last_id is None:
        return None
    if not (last_id.isascii() and last_id.isdecimal() and len(last_id) <= 18):
        raise InvalidArguments("The number of the last event is not a number.")
    return int(last_id)
