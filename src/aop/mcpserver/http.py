"""Many clients over HTTP on this machine, each request with a token of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aop.adapters.machine.sockets import LOOPBACK, Listening
from aop.core.errors import ServerStopping, TokenInvalid
from aop.core.version import VERSION
from aop.kernel.gateway.calls import refused
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import Tokens
from aop.mcpserver.door import Door

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
LARGEST_BODY = 4 * 1024 * 1024
SECONDS_FOR_STREAMS_TO_CLOSE = 2
PRINCIPAL = "aop/principal"
"""Under which name of its claims the SDK carries whom a token stands for."""

Announce = Callable[[str], None]


def serve_http(
    gateway: Gateway,
    tokens: Tokens,
    listening: Listening,
    *,
    announce: Announce,
    log: Callable[[str], None],
    routes: Sequence[Route] = (),
) -> None:
    """Serve until a signal comes; then take no new calls, and let those that are running come to their end.

    Routes that are handed in are served beside the tools, and say themselves who may come in.
    """
    origin = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
    door = Door(gateway, caller_of_request, log)
    serving = Serving(door, tokens, origin, announce, routes)
    try:
        asyncio.run(serving.until_signalled(listening))
    finally:
        door.close()


class Serving:
    """One door, served under one origin until it is stopped."""

    def __init__(
        self, door: Door, tokens: Tokens, origin: str, announce: Announce, routes: Sequence[Route] = ()
    ) -> None:
        self._doorway = Doorway(_app(door, tokens, origin, routes), tokens)
        self._server = _Server(
            uvicorn.Config(
                self._doorway,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=SECONDS_FOR_STREAMS_TO_CLOSE,
            ),
            self._is_ready,
        )
        self._announce = announce
        self._origin = origin

    async def until_signalled(self, listening: Listening) -> None:
        """Serve until a signal comes; this is the main thread's."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        await self.until_stopped(listening)

    async def until_stopped(self, listening: Listening) -> None:
        """Serve until somebody says `stop`, and let the calls that are inside come to their end."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        serving.add_done_callback(lambda _: self._stopping.set())
        await self._stopping.wait()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Who signals twice does not want to wait; the record survives that too.
            self._loop.remove_signal_handler(number)
        await self._doorway.emptied()
        self._server.handle_exit(signal.SIGTERM, None)
        await serving

    def stop(self) -> None:
        """End it, from any thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def _is_ready(self) -> None:
        self._announce(self._origin + PATH)


def caller_of_request() -> Principal:
    """Return whom the token of the request that is being answered stands for."""
    access = get_access_token()
    principal = None if access is None else (access.claims or {}).get(PRINCIPAL)
    if not isinstance(principal, Principal):
        raise TokenInvalid("This request has no token.")
    return principal


def _app(door: Door, tokens: Tokens, origin: str, routes: Sequence[Route]) -> ASGIApp:
    url = AnyHttpUrl(origin + PATH)
    return mcp_app(
        door.server(),
        origin,
        auth=AuthSettings(issuer_url=AnyHttpUrl(origin), resource_server_url=url, validate_token_resource=True),
        token_verifier=_Verifier(tokens, str(url)),
        custom_starlette_routes=[Route("/healthz", _healthz), *routes],
    )


def mcp_app(server: Server[Any], origin: str, **options: Any) -> ASGIApp:
    """Return an MCP server as an application that is reached under this origin alone, by whatever name of it."""
    origins = [origin, origin.replace(LOOPBACK, "localhost")]
    return server.streamable_http_app(
        streamable_http_path=PATH,
        # No session: what a request may do depends on its own token and on nothing that came before.
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
        """Return what the SDK wants to know of a token whose audience is this repository."""
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


class Doorway:
    """Counts the calls inside, lets no new ones in once it is closing, and says in our own words who has no token."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens
        self._inside = 0
        self._closing = False
        self._empty = asyncio.Event()

    async def emptied(self) -> None:
        """Close, and return when the last call has its answer."""
        self._closing = True
        if self._inside:
            await self._empty.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # A GET that waits for news is no call.
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if self._closing:
            await _answer(ServerStopping("The server is stopping."), 503)(scope, receive, send)
            return
        self._inside += 1
        try:
            inside = _Unauthorized(self._tokens, scope, send) if scope["path"] == PATH else send
            await self._app(scope, receive, inside)
        finally:
            self._inside -= 1
            if self._closing and not self._inside:
                self._empty.set()


class _Unauthorized:
    """Sends a response on; the body of a 401 is replaced by the refusal that every door gives."""

    def __init__(self, tokens: Tokens, scope: Scope, send: Send) -> None:
        self._tokens = tokens
        self._scope = scope
        self._send = send
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 401:
            self._body = msgspec.json.encode(refused(self._refusal()).as_json())
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
        return TokenInvalid("The request has no token: it comes in the header `Authorization: Bearer TOKEN`.")


def _answer(refusal: ServerStopping, status: int) -> Response:
    return JSONResponse(refused(refusal).as_json(), status, {"retry-after": "5"})


class _Server(uvicorn.Server):
    """Says when it is ready, and leaves signals to whoever started it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: a signal first lets the running calls end."""
        yield
