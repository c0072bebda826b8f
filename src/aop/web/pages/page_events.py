"""Page events: the journal as it grows, for pages that are open.

An event says what is stale, and no more: a page fetches what it shows. Its id is the number of the newest entry that
it covers, so that a browser which comes back, also to another server process, misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aop.core.errors import InvalidArguments, Refusal, TooManyRequests
from aop.kernel.gateway.page_sessions import PageSession
from aop.kernel.record.port import Record
from aop.web.forge.forge_door import refused
from aop.web.pages.page_door import SessionDoor
from aop.web.pages.templates import HEADERS
from aop.web.streams import EventStream, number_of

PATH = "/events"
GATHER_SECONDS = 0.1
"""Changes that come within this time are one event."""
HEARTBEAT_SECONDS = 5.0
MOST_STREAMS = 200
MOST_ENTRIES = 500
"""So many entries of the journal are behind one event at most."""


class News(Struct, frozen=True, kw_only=True):
    """The news of one event: what a page may have to draw again."""

    after: int
    """The number of the last entry before those that it covers."""
    seq: int
    """The number of the newest entry that it covers."""
    features: tuple[str, ...] = ()
    """The features that changed."""
    kinds: tuple[str, ...] = ()
    """The kinds of what happened."""


class PageEvents:
    """Serves one stream for each page that is open."""

    def __init__(
        self,
        door: SessionDoor,
        stopping: asyncio.Event,
        news: Callable[[PageSession, int], News | None],
        *,
        gather_seconds: float = GATHER_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """Serve what `news` returns for a session: what changed after a number, or None."""
        self._door = door
        self._stopping = stopping
        self._news = news
        self._gather_seconds = gather_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._open = 0

    def route(self) -> Route:
        """Return the address of the stream."""
        return Route(PATH, self._serve, methods=["GET"])

    async def _serve(self, request: Request) -> Response:
        try:
            session = await self._door.in_thread(self._door.session, request)
            after = number_of(request.headers.get("last-event-id") or request.query_params.get("after"))
            if after is None:
                raise InvalidArguments("The stream needs the number of the journal at which the page was drawn.")
            if self._open >= MOST_STREAMS:
                raise TooManyRequests("Too many pages are open.", retry_after_seconds=5)
        except Refusal as refusal:
            return refused(refusal)
        # Counted before anything else can run: streams that come together are not all let in.
        self._open += 1
        return EventStream(self._events(request, session, after), headers=HEADERS, at_end=self._close)

    def _close(self) -> None:
        self._open -= 1

    async def _events(self, request: Request, session: PageSession, after: int) -> AsyncIterator[bytes]:
        """Yield the news, and a sign of life while there is none; end when the session or the server ends."""
        yield b"retry: 500\n\n"
        silent = self._heartbeat_seconds
        while not self._stopping.is_set():
            try:
                news = await self._door.in_thread(self._news, session, after)
                if news is not None or silent >= self._heartbeat_seconds:
                    # A session that was revoked meanwhile hears nothing more.
                    await self._door.in_thread(self._door.session, request)
            except Refusal:
                return
            if news is not None:
                after = news.seq
                yield _text("news", news)
                silent = 0.0
            elif silent >= self._heartbeat_seconds:
                yield b"event: beat\ndata: {}\n\n"
                silent = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._gather_seconds)
            silent += self._gather_seconds


def journal_news(record: Record, after: int) -> News | None:
    """Return what the journal has after a number; None if that is nothing."""
    with record.read() as view:
        entries = list(view.journal(after=after, limit=MOST_ENTRIES))
    if not entries:
        return None
    features = {str(each.event.feature_id) for each in entries if each.event.feature_id}
    kinds = {each.event.kind for each in entries}
    return News(after=after, seq=entries[-1].seq, features=tuple(sorted(features)), kinds=tuple(sorted(kinds)))


def _text(name: str, news: News) -> bytes:
    # JSON has no line break outside of its texts, and escapes those inside.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (news.seq, name.encode(), msgspec.json.encode(news))
