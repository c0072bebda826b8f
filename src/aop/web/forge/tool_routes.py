"""Tool routes: requests that call a tool of the gateway, with the rights of a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aop.core.errors import InvalidArguments, Json, Refusal
from aop.forge.projects.keys import KEYS_SCOPE
from aop.forge.tools.api_keys import KeyFacts, Keys, MadeKey
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.port import Snapshot
from aop.web.bodies import read_body
from aop.web.forge.forge_door import ForgeDoor, KeyHolder, refused, status_of

Endpoint = Callable[[Request], Awaitable[Response]]

LARGEST_BODY = 64 * 1024


class NoBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that says all in its address: empty, or `{}`."""


class HttpNewKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key that is wanted."""

    label: Annotated[str, Meta(max_length=100)] = ""
    scopes: Annotated[tuple[Literal["read", "write"], ...], Meta(min_length=1, max_length=8)] = ("read",)
    """Only scopes that the asking key has; a key that makes keys is made by a person."""


class Asked(Struct, frozen=True, kw_only=True):
    """One request for a tool, before the call."""

    view: Snapshot
    holder: KeyHolder
    values: Mapping[str, str]
    """The parts of the path that have a name."""
    body: Struct


class ToolRoute(Struct, frozen=True, kw_only=True):
    """A route that calls a tool; the tool names the scope that opens it."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    tool: str
    scope: str
    answer: type[Struct]
    body: type[Struct] = NoBody
    arguments: Callable[[Asked], Mapping[str, Json]] = lambda _asked: {}
    status: int = 200


KEY_ROUTES: tuple[ToolRoute, ...] = (
    ToolRoute(
        method="POST",
        path="/auth/forge-keys",
        summary="Make a key; its text is sent once.",
        tool="forge.key_new",
        scope=KEYS_SCOPE,
        answer=MadeKey,
        body=HttpNewKey,
        arguments=lambda asked: msgspec.to_builtins(asked.body),
        status=201,
    ),
    ToolRoute(
        method="GET",
        path="/auth/forge-keys",
        summary="Your keys: label, scopes, last use.",
        tool="forge.key_list",
        scope=KEYS_SCOPE,
        answer=Keys,
    ),
    ToolRoute(
        method="DELETE",
        path="/auth/forge-keys/{prefix}",
        summary="Revoke a key of yours.",
        tool="forge.key_revoke",
        scope=KEYS_SCOPE,
        answer=KeyFacts,
        arguments=lambda asked: {"prefix": asked.values["prefix"]},
    ),
)


def tool_routes(door: ForgeDoor, gateway: Gateway, table: Sequence[ToolRoute]) -> list[Route]:
    """Return the rows of a table for the server; a path is one route, which knows all its methods."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in table:
        by_path.setdefault(each.path, {})[each.method] = _endpoint(door, gateway, each)
    return [_route(path, by_method) for path, by_method in by_path.items()]


def _route(path: str, by_method: Mapping[str, Endpoint]) -> Route:
    async def endpoint(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(by_method))


def _endpoint(door: ForgeDoor, gateway: Gateway, route: ToolRoute) -> Endpoint:

    def act(request: Request, content: bytes) -> Envelope:
        with door.kernel.record.read() as view:
            holder = door.holder(view, request.headers, route.scope)
            body = _decoded(content, route.body)
            asked = Asked(view=view, holder=holder, values=request.path_params, body=body)
            arguments = route.arguments(asked)
        door.note_use(holder.key)
        return gateway.call(holder.principal, route.tool, arguments)

    async def endpoint(request: Request) -> Response:
        try:
            door.check_address(request.headers)
            content = (
                b"" if route.method == "GET" else await read_body(request, "application/json", largest=LARGEST_BODY)
            )
            answer = await door.in_thread(act, request, content)
        except Refusal as refusal:
            return refused(refusal)
        if answer.error is not None:
            return JSONResponse(answer.as_json(), status_of(answer.error["code"]), {"cache-control": "no-store"})
        return JSONResponse(answer.data, route.status, {"cache-control": "no-store"})

    return endpoint


def _decoded(content: bytes, shape: type[Struct]) -> Struct:
    try:
        return msgspec.json.decode(content or b"{}", type=shape)
    except msgspec.DecodeError as error:
        raise InvalidArguments(f"The body is not valid: {error}.") from error
