"""HTTP transport: many clients on this machine, each request with its own token."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from aop.adapters.machine.sockets import LOOPBACK, ListeningSocket
from aop.core.errors import ServerStopping, TokenInvalid
from aop.core.version import VERSION
from aop.kernel.gateway.calls import refusal_envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import Tokens
from aop.mcpserver.connections import IDLE_SECONDS, WatchedConnection
from aop.mcpserver.tool_server import ToolServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
LARGEST_BODY = 4 * 1024 * 1024
LARGEST_WS_MESSAGE = 4096
"""Nobody has anything to say on a WebSocket of ours."""
SECONDS_FOR_STREAMS_TO_CLOSE = 2
PRINCIPAL = "aop/principal"
"""The claim of the SDK's access token that holds our principal."""

Announce = Callable[[str], None]


def serve_http(
    gateway: Gateway,
    tokens: Tokens,
    listening: ListeningSocket,
    *,
    announce: Announce,
    log: Callable[[str], None],
    routes: Sequence[BaseRoute] = (),
    stopping: asyncio.Event | None = None,
) -> None:
    """Serve until a signal arrives, then finish the running calls; `routes` authenticate their requests themselves.

    Streams of theirs end when `stopping` is set.
    """
    tools, origin = ToolServer(gateway, caller_of_request, log), origin_of(listening)
    app = tools_app(tools, tokens, origin, routes)
    serving = HttpServer(app, tokens, lambda: announce(origin + PATH), stopping=stopping)
    try:
        asyncio.run(serving.serve_until_signal(listening))
    finally:
        tools.close()


def serve_routes(
    routes: Sequence[BaseRoute],
    tokens: Tokens,
    listening: ListeningSocket,
    *,
    announce: Announce,
    stopping: asyncio.Event,
) -> None:
    """Serve routes alone, without tools, until a signal arrives; they authenticate their requests themselves."""
    app = Starlette(routes=[Route("/healthz", _healthz), *routes])
    serving = HttpServer(app, tokens, lambda: announce(origin_of(listening)), stopping=stopping)
    asyncio.run(serving.serve_until_signal(listening))


def origin_of(listening: ListeningSocket) -> str:
    """Return the address of a server that listens here."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}"


class HttpServer:
    """Serves one application."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        ready: Callable[[], None],
        *,
        stopping: asyncio.Event | None = None,
        outlived: bool = False,
    ) -> None:
        """`outlived` by other servers of this process, which then go on."""
        self._outlived = outlived
        self._app = DrainingApp(app, tokens, stopping or asyncio.Event())
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            server_header=False,
            http=WatchedConnection,
            ws="wsproto",
            ws_max_size=LARGEST_WS_MESSAGE,
            ws_per_message_deflate=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=SECONDS_FOR_STREAMS_TO_CLOSE,
        )
        self._server = _UvicornServer(config, ready)

    async def serve_until_signal(self, listening: ListeningSocket) -> None:
        """Serve until a signal arrives; only in the main thread."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        await self.serve_until_stopped(listening)

    async def serve_until_stopped(self, listening: ListeningSocket) -> None:
        """Serve until `stop` is called, then finish the running calls."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        serving.add_done_callback(lambda _: self._stopping.set())
        await self._stopping.wait()
        for number in (signal.SIGINT, signal.SIGTERM):
            # A second signal ends the process at once; the record survives that.
            self._loop.remove_signal_handler(number)
        await self._app.drain()
        if self._outlived:
            # The other way ends the streams of all servers of this process, now and for ever.
            self._server.should_exit = True
        else:
            self._server.handle_exit(signal.SIGTERM, None)
        await serving

    def stop(self) -> None:
        """Stop the server; from any thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)


def caller_of_request() -> Principal:
    """Return the principal of the current request's token."""
    access = get_access_token()
    principal = None if access is None else (access.claims or {}).get(PRINCIPAL)
    if not isinstance(principal, Principal):
        raise TokenInvalid("This request has no token.")
    return principal


def tools_app(tools: ToolServer, tokens: Tokens, origin: str, routes: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Return tools for callers with a token, and further routes, as an ASGI application."""
    url = AnyHttpUrl(origin + PATH)
    return mcp_app(
        tools.mcp_server(),
        origin,
        auth=AuthSettings(issuer_url=AnyHttpUrl(origin), resource_server_url=url, validate_token_resource=True),
        token_verifier=_Verifier(tokens, str(url)),
        custom_starlette_routes=[Route("/healthz", _healthz), *routes],
    )


def mcp_app(server: Server[Any], origin: str, **options: Any) -> ASGIApp:
    """Return an MCP server as an ASGI application that accepts only this origin."""
    origins = [origin, origin.replace(LOOPBACK, "localhost")]
    return server.streamable_http_app(
        streamable_http_path=PATH,
        # No sessions: the rights of a request depend on its own token only.
        stateless_http=True,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[each.removeprefix("http://") for each in origins],
            allowed_origins=origins,
        ),
        **options,
    )


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"ok": True, "version": VERSION})


class _Verifier:
    """Implements the SDK's `TokenVerifier`."""

    def __init__(self, tokens: Tokens, resource: str) -> None:
        self._tokens = tokens
        self._resource = resource

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the SDK's access token for one of our tokens, or None."""
        try:
            principal = self._tokens.principal(token)
        except TokenInvalid:
            return None
        return AccessToken(
            token=token,
            client_id=principal.role,
            subject=principal.actor,
            scopes=[],
            resource=self._resource,
            claims={PRINCIPAL: principal},
        )


class _Exchange:
    """One request and its response; while it waits for its client, it holds nothing up."""

    def __init__(self, receive: Receive, send: Send, changed: asyncio.Event) -> None:
        self.waits_for_client = True
        self._receive = receive
        self._send = send
        self._changed = changed

    async def receive(self) -> Message:
        """Return what the client sent; with the end of its request, work begins."""
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._now(waits=False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response; a client that does not read it makes this last."""
        self._now(waits=True)
        await self._send(message)
        self._now(waits=False)

    def _now(self, *, waits: bool) -> None:
        self.waits_for_client = waits
        self._changed.set()


class DrainingApp:
    """Knows the running calls, refuses new ones while it drains, and words the refusal of a request without token."""

    def __init__(self, app: ASGIApp, tokens: Tokens, stopping: asyncio.Event) -> None:
        self._app = app
        self._tokens = tokens
        self._running: set[_Exchange] = set()
        self._stopping = stopping
        self._changed = asyncio.Event()

    async def drain(self) -> None:
        """Refuse new calls, and return when the last is answered; clients that neither send nor read are left."""
        self._stopping.set()
        now = asyncio.get_running_loop().time
        until = now() + SECONDS_FOR_STREAMS_TO_CLOSE
        while self._running:
            if any(not each.waits_for_client for each in self._running):
                until = now() + SECONDS_FOR_STREAMS_TO_CLOSE
            elif now() >= until:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), until - now())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # A GET that waits for events is not a call.
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if self._stopping.is_set():
            stopping = refusal_envelope(ServerStopping("The server is stopping."))
            await JSONResponse(stopping.as_json(), 503, {"retry-after": "5"})(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._changed)
        self._running.add(exchange)
        try:
            answered = _Unauthorized(self._tokens, scope, exchange.send) if scope["path"] == PATH else exchange.send
            await self._app(scope, exchange.receive, answered)
        finally:
            self._running.remove(exchange)
            self._changed.set()


class _Unauthorized:
    """Forwards a response; the body of a 401 becomes our own refusal."""

    def __init__(self, tokens: Tokens, scope: Scope, send: Send) -> None:
        self._tokens = tokens
        self._scope = scope
        self._send = send
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 401:
            self._body = msgspec.json.encode(refusal_envelope(self._refusal()).as_json())
            headers = [pair for pair in message["headers"] if pair[0] != b"content-length"]
            headers.append((b"content-length", str(len(self._body)).encode()))
            message = {**message, "headers": headers}
        elif self._body:
            message = {**message, "body": self._body}
        await self._send(message)

    def _refusal(self) -> TokenInvalid:
        kind, _, token = Headers(scope=self._scope).get("authorization", "").partition(" ")
        try:
            if kind.lower() == "bearer":
                self._tokens.principal(token)
        except TokenInvalid as refusal:
            return refusal
        return TokenInvalid("The request has no token. Send it in the header `Authorization: Bearer TOKEN`.")


class _UvicornServer(uvicorn.Server):
    """Reports when it is ready, and leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen, then report it."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: on a signal the running calls end first."""
        yield
