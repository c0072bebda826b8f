"""Events of forge projects, from the journal: server-sent events and WebSocket.

A stream holds a place in the journal and nothing else: a slow reader gets the same events later, and one that comes
back with the number of its last event misses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from aop.core.errors import Refusal, TooManyRequests
from aop.forge.builds.people.clarifications import open_requests
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.forge.projects.keys import READ_SCOPE, the_key
from aop.forge.projects.owners import is_own, the_project
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Event, JournalEntry, Snapshot, newest_seq
from aop.web.forge.forge_door import ForgeDoor, KeyHolder, offered_key, refused
from aop.web.streams import SEND_SECONDS, EventStream, number_of

SSE_PATH = "/api/events"
WS_PATH = "/ws"

POLL_SECONDS = 0.25
HEARTBEAT_SECONDS = 15.0
PAGE = 50
"""So many entries of the journal are read at once."""
SENT_KINDS = frozenset(
    {
        "project_begun",
        "project_deleted",
        "renovation_planned",
        "contract_progress",
        "contracts_stored",
        "contract_consistency",
        "contracts_pinned",
        "contract_fetched",
        "contracts_generated",
        "scout_progress",
        "scout_complete",
        "build_began",
        "build_log",
        "build_clarification_request",
        "build_clarification_resolved",
        "build_error_tracked",
        "build_error_resolved",
        "build_paused",
        "build_resumed",
        "build_failed",
        "build_complete",
        "build_abandoned",
        "build_sealed",
        "phase_complete",
        "plan_complete",
        "file_generated",
        "file_audited",
        "fix_attempt_result",
        "invariant_check",
        "cost_ticker",
        "cost_warning",
        "cost_exceeded",
        "note_changed",
    }
)
"""The events that programs are sent; others, such as those about tokens, stay in the journal."""
MOST_STREAMS = 64
MOST_STREAMS_OF_KEY = 8


class ForgeEvent(Struct, frozen=True, kw_only=True):
    """An event of a project; the id is its number in the journal."""

    id: int
    event: str
    data: Mapping[str, Any]


class Subscription(Struct, frozen=True, kw_only=True):
    """The reader of a stream, and where it begins."""

    holder: KeyHolder
    key: str
    after: int
    project_id: str | None


class EventPage(Struct, frozen=True, kw_only=True):
    """Events in order, and the place in the journal behind them."""

    events: tuple[ForgeEvent, ...]
    after: int
    is_last: bool


class EventStreams:
    """Serves the events of the projects that a key's owner has."""

    def __init__(self, door: ForgeDoor, stopping: asyncio.Event) -> None:
        self._door = door
        self._stopping = stopping
        self._record = door.kernel.record
        self._open: list[str] = []
        """The prefix of the key of each open stream."""

    def routes(self) -> list[BaseRoute]:
        """Return both doors to the same events."""
        return [Route(SSE_PATH, self._sse), WebSocketRoute(WS_PATH, self._websocket)]

    async def _sse(self, request: Request) -> Response:
        try:
            subscription = await self._subscribe(request, request.headers.get("last-event-id"))
        except Refusal as refusal:
            return refused(refusal)
        return EventStream(_as_text(self._pages(subscription)), at_end=lambda: self._close(subscription))

    async def _websocket(self, socket: WebSocket) -> None:
        try:
            subscription = await self._subscribe(socket, socket.query_params.get("after"))
        except Refusal as refusal:
            await socket.send_denial_response(refused(refusal))
            return
        # A client that has gone is noticed by reading; what it says is not asked for.
        sending = asyncio.ensure_future(self._send_all(socket, subscription))
        reading = asyncio.ensure_future(_read_until_gone(socket))
        try:
            await asyncio.wait([sending, reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._close(subscription)
            for task in (sending, reading):
                task.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)

    async def _send_all(self, socket: WebSocket, subscription: Subscription) -> None:
        await socket.accept()
        with suppress(TimeoutError, WebSocketDisconnect):
            async for page in self._pages(subscription):
                for event in page:
                    async with asyncio.timeout(SEND_SECONDS):
                        await socket.send_text(msgspec.json.encode(event).decode())
        with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(POLL_SECONDS):
                await socket.close(1012 if self._stopping.is_set() else 1008)

    async def _subscribe(self, connection: HTTPConnection, last_id: str | None) -> Subscription:
        self._door.check_address(connection.headers)
        after = number_of(last_id)
        subscription = await self._door.in_thread(self._subscription, connection, after)
        key = subscription.holder.key
        if len(self._open) >= MOST_STREAMS or self._open.count(key.prefix) >= MOST_STREAMS_OF_KEY:
            raise TooManyRequests("Too many streams of events are open.", retry_after_seconds=5)
        # Counted with the check, before anything else can run: streams that come together are not all let in.
        self._open.append(key.prefix)
        return subscription

    def _close(self, subscription: Subscription) -> None:
        self._open.remove(subscription.holder.key.prefix)

    def _subscription(self, connection: HTTPConnection, after: int | None) -> Subscription:
        project_id = connection.query_params.get("project")
        with self._record.read() as view:
            holder = self._door.holder(view, connection.headers, READ_SCOPE)
            if project_id is not None:
                the_project(view, project_id, holder.principal)
            start = newest_seq(view) if after is None else after
        self._door.note_use(holder.key)
        return Subscription(holder=holder, key=offered_key(connection.headers), after=start, project_id=project_id)

    async def _pages(self, subscription: Subscription) -> AsyncIterator[list[ForgeEvent]]:
        """Yield the events as they happen, and nothing as a sign of life; end when the key or the server ends."""
        after, silent, read = subscription.after, 0.0, self._first_page
        while not self._stopping.is_set():
            try:
                page = await self._door.in_thread(read, subscription, after)
            except Refusal:
                # The key was revoked, or the record broke: a reader that comes back is told.
                return
            after, read = page.after, self._page
            if page.events or silent >= HEARTBEAT_SECONDS:
                yield list(page.events)
                silent = 0.0
            if page.is_last:
                silent += POLL_SECONDS
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), POLL_SECONDS)

    def _first_page(self, subscription: Subscription, after: int) -> EventPage:
        """Return the first events, after the questions of builds that a reader has missed and that are still open.

        These carry the number of the place where the stream begins: a reader that comes back later loses nothing.
        """
        page = self._page(subscription, after)
        who, now = subscription.holder.principal, self._door.kernel.clock.now()
        with self._record.read() as view:
            missed = [
                _event(entry, after)
                for entry in open_requests(view, who, now, project_id=subscription.project_id, until=after)
            ]
        return replace(page, events=(*missed, *page.events))

    def _page(self, subscription: Subscription, after: int) -> EventPage:
        with self._record.read() as view:
            # A key that was revoked meanwhile opens nothing more.
            the_key(view, subscription.key)
            entries = list(view.journal(after=after, limit=PAGE))
            events = tuple(forge_events(view, entries, subscription.holder.principal, subscription.project_id))
        return EventPage(events=events, after=entries[-1].seq if entries else after, is_last=len(entries) < PAGE)


def forge_events(
    view: Snapshot, entries: list[JournalEntry], principal: Principal, project_id: str | None
) -> list[ForgeEvent]:
    """Return the entries that are about a project of the reader, or about the one that it asks for."""
    about = {entry.seq: _project_of(view, entry.event) for entry in entries if entry.event.kind in SENT_KINDS}
    known = {name: view.get(ForgeProject, name) for name in set(about.values()) if name is not None}
    mine = {
        name
        for name, project in known.items()
        if project is not None and is_own(principal, project) and project_id in (None, name)
    }
    return [_event(entry, entry.seq) for entry in entries if about.get(entry.seq) in mine]


def _event(entry: JournalEntry, number: int) -> ForgeEvent:
    return ForgeEvent(id=number, event=entry.event.kind, data={"at": entry.event.at, **entry.event.payload})


def _project_of(view: Snapshot, event: Event) -> str | None:
    """Return the project of an event: the one that it names, or that of the build that it belongs to."""
    named = event.payload.get("project_id")
    if isinstance(named, str):
        return named
    build = None if event.feature_id is None else view.get(ForgeBuild, event.feature_id)
    return None if build is None else build.project_id


async def _as_text(pages: AsyncIterator[list[ForgeEvent]]) -> AsyncIterator[bytes]:
    # The first bytes tell a reader that it is connected.
    yield b": connected\n\n"
    async for page in pages:
        yield b"".join(map(_sse_text, page)) or b": alive\n\n"


def _sse_text(event: ForgeEvent) -> bytes:
    # JSON has no line break outside of its texts, and escapes those inside.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, event.event.encode(), msgspec.json.encode(event.data))


async def _read_until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
