"""Host proxy: TLS connections of one turn to the listed hosts, and to no others.

The filter of a sandbox knows ports and no hosts, so the agent gets the port of this proxy. It answers only CONNECT with
the turn's token, resolves a name itself and once, and passes bytes on that it cannot read.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from msgspec import Struct

from aop.adapters.agents.logins.client_hello import LARGEST_HELLO, NotTls, client_hello
from aop.adapters.agents.logins.connect_requests import (
    LARGEST_HEAD,
    ProxyRefusal,
    Refused,
    connect_request,
)
from aop.adapters.agents.logins.destinations import HTTPS, MACHINE_NETWORK, Network, Streams, is_public
from aop.adapters.machine.sockets import LOOPBACK, ListeningSocket, loopback_socket

USER = "aop"
AT_MOST = 64
"""The open connections of a turn."""
_WAITING = 128
_CHUNK = 64 * 1024
_NOTED = 200
"""The hosts that are noted for one reason; the refusals of further ones are only counted."""


class ProxyTimeouts(Struct, frozen=True, kw_only=True):
    """The time limits of a connection, in seconds."""

    opening: float = 15.0
    """Each for its request, the way to the host, and the first message of TLS."""
    silence: float = 600.0
    """Without a byte in either direction."""


class ProxyReport(Struct, frozen=True, kw_only=True):
    """The counts of a proxy."""

    connections: Mapping[str, int]
    """Connections by host."""
    sent_bytes: int
    received_bytes: int
    refused: Mapping[tuple[Refused, str], int]
    """Refused connections, by reason and host."""


class HostProxy:
    """The proxy of one turn: `url` is all that the agent needs."""

    def __init__(self, hosts: frozenset[str], network: Network, timeouts: ProxyTimeouts) -> None:
        self._hosts = hosts
        self._network = network
        self._timeouts = timeouts
        self._listening: ListeningSocket = loopback_socket(0)
        # From here on a client waits instead of being refused.
        self._listening.listen(_WAITING)
        self.port: int = self._listening.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        self._credentials = f"Basic {b64encode(f'{USER}:{self.token}'.encode()).decode()}"
        self._open: set[asyncio.Task[None]] = set()
        self._connections: Counter[str] = Counter()
        self._refused: Counter[tuple[Refused, str]] = Counter()
        self._bytes = [0, 0]
        self._is_ending = False

    @property
    def url(self) -> str:
        """Return the address with the turn's token."""
        return f"http://{USER}:{self.token}@{LOOPBACK}:{self.port}"

    def report(self) -> ProxyReport:
        """Return the counts so far."""
        sent, received = self._bytes
        return ProxyReport(
            connections=dict(self._connections), sent_bytes=sent, received_bytes=received, refused=dict(self._refused)
        )

    async def serve(self, ended: asyncio.Event) -> None:
        """Serve until the event is set, then abort what is open."""
        server = await asyncio.start_server(self._accept, sock=self._listening, limit=LARGEST_HEAD)
        await ended.wait()
        self._is_ending = True
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("A connection is served by a task.")
        self._open.add(task)
        try:
            await self._answer(reader, writer)
        except ProxyRefusal as refusal:
            self._note(refusal)
            with suppress(OSError):
                writer.write(refusal.response)
                await asyncio.wait_for(writer.drain(), self._timeouts.opening)
        except OSError:
            pass  # the agent or the host has hung up
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
        finally:
            self._open.discard(task)
            writer.close()

    def _note(self, refusal: ProxyRefusal) -> None:
        known = sum(1 for reason, _ in self._refused if reason is refusal.reason)
        host = refusal.host if known < _NOTED else ""
        self._refused[refusal.reason, host] += 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) > AT_MOST:
            raise ProxyRefusal(Refused.TOO_MANY)
        host = await self._requested_host(reader)
        upstream, onward = await self._connected(host)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            hello = await self._hello(reader, host)
            self._connections[host] += 1
            self._bytes[0] += len(hello)
            onward.write(hello)
            await self._pass_on((reader, writer), (upstream, onward))
        finally:
            onward.close()

    async def _requested_host(self, reader: asyncio.StreamReader) -> str:
        try:
            async with asyncio.timeout(self._timeouts.opening):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError as error:
            raise ProxyRefusal(Refused.TIMED_OUT) from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ProxyRefusal(Refused.MALFORMED) from error
        request = connect_request(head)
        if not hmac.compare_digest(request.credentials.encode(), self._credentials.encode()):
            raise ProxyRefusal(Refused.NO_TOKEN, request.host)
        request.demand(self._hosts)
        return request.host

    async def _connected(self, host: str) -> Streams:
        """Connect to a host that is on the list, at the address that was checked."""
        try:
            async with asyncio.timeout(self._timeouts.opening):
                addresses = await self._network.resolve(host)
                if not addresses or not all(map(is_public, addresses)):
                    raise ProxyRefusal(Refused.NOT_PUBLIC, host)
                return await self._first_connected(addresses)
        except (OSError, TimeoutError) as error:
            raise ProxyRefusal(Refused.UNREACHABLE, host) from error

    async def _first_connected(self, addresses: Sequence[str]) -> Streams:
        """Connect to the first address that answers; a name has at least one."""
        for address in addresses[:-1]:
            with suppress(OSError):
                return await self._network.connect(address, HTTPS)
        return await self._network.connect(addresses[-1], HTTPS)

    async def _hello(self, reader: asyncio.StreamReader, host: str) -> bytes:
        """Read the first message of TLS, which must name the same host."""
        data = b""
        try:
            async with asyncio.timeout(self._timeouts.opening):
                while (hello := client_hello(data)) is None:
                    chunk = await reader.read(_CHUNK)
                    data += chunk
                    if not chunk or len(data) > 2 * LARGEST_HELLO:
                        raise ProxyRefusal(Refused.NOT_TLS, host, is_open=True)
        except NotTls as error:
            raise ProxyRefusal(Refused.NOT_TLS, host, is_open=True) from error
        except TimeoutError as error:
            raise ProxyRefusal(Refused.TIMED_OUT, host, is_open=True) from error
        if hello.is_encrypted or hello.server_name != host:
            reason = Refused.HIDDEN_NAME if hello.is_encrypted else Refused.OTHER_NAME
            raise ProxyRefusal(reason, host, is_open=True)
        return data

    async def _pass_on(self, agent: Streams, host: Streams) -> None:
        """Pass bytes on in both directions until both are closed, or nothing moves any more."""
        moved = _LastMove()
        ways = ((agent[0], host[1], 0), (host[0], agent[1], 1))
        passing = {asyncio.create_task(self._pass_way(source, sink, way, moved)) for source, sink, way in ways}
        try:
            while passing and (left := self._timeouts.silence - moved.seconds_ago) > 0:
                ended, passing = await asyncio.wait(passing, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
        finally:
            for task in passing:
                task.cancel()

    async def _pass_way(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: int, moved: _LastMove
    ) -> None:
        while chunk := await source.read(_CHUNK):
            moved.now()
            self._bytes[way] += len(chunk)
            sink.write(chunk)
            await sink.drain()
        sink.write_eof()


class _LastMove:
    """The time of the last byte of a connection."""

    def __init__(self) -> None:
        self.now()

    def now(self) -> None:
        self._at = time.monotonic()

    @property
    def seconds_ago(self) -> float:
        return time.monotonic() - self._at


@contextmanager
def open_proxy(
    hosts: frozenset[str], network: Network = MACHINE_NETWORK, timeouts: ProxyTimeouts | None = None
) -> Iterator[HostProxy]:
    """Open a proxy to some hosts; at the end, its connections are aborted."""
    proxy = HostProxy(hosts, network, timeouts or ProxyTimeouts())
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    thread = threading.Thread(target=_run, args=(loop, proxy.serve(ended)), name="aop-host-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[None, None, None]) -> None:
    with closing(loop):
        loop.run_until_complete(serving)
