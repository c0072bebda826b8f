"""Forge routes of `aop serve`: contracts and events for programs with a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from aop.core.digests import sha256_hex
from aop.core.errors import InternalError, MethodNotAllowed, Refusal, UnknownRoute
from aop.core.ids import is_feature_id
from aop.core.text.visible import visible
from aop.forge.projects.http_bodies import (
    HttpBatch,
    HttpBuild,
    HttpContext,
    HttpContract,
    HttpContracts,
    batch_text,
    build_contracts,
    contract_list,
    contract_text,
    project_context,
)
from aop.forge.projects.keys import READ_SCOPE
from aop.forge.projects.owners import the_build, the_project
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.record.port import Snapshot
from aop.web.forge.build_routes import BUILD_ROUTES
from aop.web.forge.events import EventStreams
from aop.web.forge.forge_door import ForgeDoor, KeyHolder, refused
from aop.web.forge.openapi import ALWAYS, OPENAPI_PATH, Operation, openapi_document
from aop.web.forge.scout_routes import SCOUT_ROUTES
from aop.web.forge.tool_routes import KEY_ROUTES, NoBody, ToolRoute, tool_routes

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
ALL_PATHS = tuple(path for top in ("/api", "/auth", "/projects", "/scout") for path in (top, f"{top}/{{rest:path}}"))
"""The addresses below which every answer is JSON."""
REVALIDATED = "private, no-cache"
FOR_GOOD = "private, max-age=31536000, immutable"


class Reading(Struct, frozen=True, kw_only=True):
    """One request for something in the record."""

    door: ForgeDoor
    view: Snapshot
    holder: KeyHolder
    values: Mapping[str, str]
    """The parts of the path that have a name."""


class ReadRoute(Struct, frozen=True, kw_only=True):
    """A route that reads the record."""

    path: str
    summary: str
    answer: type[Struct]
    read: Callable[[Reading], Struct]
    never_changes: bool = False
    """The same address has the same answer for good."""
    scope: str = READ_SCOPE


def _contracts(asked: Reading) -> HttpContracts:
    return contract_list(asked.view, the_project(asked.view, asked.values["project_id"], asked.holder.principal))


def _contract(asked: Reading) -> HttpContract:
    project = the_project(asked.view, asked.values["project_id"], asked.holder.principal)
    return contract_text(asked.view, project, asked.values["contract_type"])


def _batch(asked: Reading) -> HttpBatch:
    project = the_project(asked.view, asked.values["project_id"], asked.holder.principal)
    return batch_text(asked.view, project, asked.values["batch"])


def _context(asked: Reading) -> HttpContext:
    return project_context(asked.view, the_project(asked.view, asked.values["project_id"], asked.holder.principal))


def _build_contracts(asked: Reading) -> HttpBuild:
    build = the_build(asked.view, asked.values["build_id"], asked.holder.principal)
    asked.door.count_build(build.build_id)
    return build_contracts(asked.view, build)


READ_ROUTES: tuple[ReadRoute, ...] = (
    ReadRoute(
        path="/api/projects/{project_id}/contracts",
        summary="The contracts of a project, without their text.",
        answer=HttpContracts,
        read=_contracts,
    ),
    ReadRoute(
        path="/api/projects/{project_id}/contracts/{contract_type}",
        summary="A contract of a project as it is now.",
        answer=HttpContract,
        read=_contract,
    ),
    ReadRoute(
        path="/api/projects/{project_id}/contracts/history/{batch}",
        summary="An earlier batch of all nine contracts, or the newest.",
        answer=HttpBatch,
        read=_batch,
        never_changes=True,
    ),
    ReadRoute(
        path="/api/mcp/context/{project_id}",
        summary="A project with the facts about its contracts.",
        answer=HttpContext,
        read=_context,
    ),
    ReadRoute(
        path="/api/mcp/context/{project_id}/{contract_type}",
        summary="A contract of a project as it is now.",
        answer=HttpContract,
        read=_contract,
    ),
    ReadRoute(
        path="/api/mcp/build/{build_id}/contracts",
        summary="The contracts that a build began with.",
        answer=HttpBuild,
        read=_build_contracts,
        never_changes=True,
    ),
)


TOOL_ROUTES: tuple[ToolRoute, ...] = (*KEY_ROUTES, *SCOUT_ROUTES, *BUILD_ROUTES)


def forge_routes(
    gateway: Gateway, origin: str, stopping: asyncio.Event, *, log: Callable[[str], None]
) -> list[BaseRoute]:
    """Return the routes of forge, on a server with this origin; streams end when `stopping` is set."""
    door = ForgeDoor(gateway.kernel, origin, log)
    routes: list[BaseRoute] = [
        *(read_route(door, each) for each in READ_ROUTES),
        *tool_routes(door, gateway, TOOL_ROUTES),
        Route(OPENAPI_PATH, _openapi_endpoint(door)),
        *EventStreams(door, stopping).routes(),
    ]
    return [*routes, *(Route(path, _no_route(door, routes), methods=METHODS) for path in ALL_PATHS)]


def _no_route(door: ForgeDoor, routes: Sequence[BaseRoute]) -> Callable[[Request], object]:
    """Return the endpoint for what no route answers: 404, or 405 with the methods that there are."""

    async def endpoint(request: Request) -> Response:
        known = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
        allowed = sorted({name for each in known if isinstance(each, Route) for name in each.methods or ()})
        asked = f"{request.method} {request.url.path}"
        try:
            door.check_address(request.headers)
        except Refusal as refusal:
            return refused(refusal)
        if not allowed:
            return refused(UnknownRoute(f"There is no route `{visible(asked[:200])}`."))
        answer = refused(MethodNotAllowed(f"The route of `{visible(asked[:200])}` takes: {', '.join(allowed)}."))
        answer.headers["allow"] = ", ".join(allowed)
        return answer

    return endpoint


def read_route(door: ForgeDoor, route: ReadRoute) -> Route:
    """Return a route of the table for the server."""

    async def endpoint(request: Request) -> Response:
        try:
            return await door.in_thread(_answer, door, route, request.headers, request.path_params)
        except Refusal as refusal:
            return refused(refusal)

    return Route(route.path, endpoint, methods=["GET"])


def _answer(door: ForgeDoor, route: ReadRoute, headers: Headers, values: Mapping[str, str]) -> Response:
    began, outcome = door.kernel.clock.boot_seconds(), InternalError.code
    door.check_address(headers)
    with door.kernel.record.read() as view:
        holder = door.holder(view, headers, route.scope)
        try:
            body = msgspec.json.encode(route.read(Reading(door=door, view=view, holder=holder, values=values)))
            outcome = "ok"
        except Refusal as refusal:
            outcome = refusal.code
            raise
        finally:
            _note(door, route, values, began=began, outcome=outcome, actor=holder.principal.actor)
    door.note_use(holder.key)
    return _tagged(body, headers, FOR_GOOD if route.never_changes else REVALIDATED)


def _note(
    door: ForgeDoor, route: ReadRoute, values: Mapping[str, str], *, began: float, outcome: str, actor: str
) -> None:
    """Log a request of a key as the calls of agents are logged (FORGE-116)."""
    kernel, build = door.kernel, values.get("build_id", "")
    kernel.calls.note(
        LoggedCall(
            at=kernel.now(),
            actor=actor,
            role="key",
            tool=f"GET {route.path}",
            feature_id=build if is_feature_id(build) else None,
            operation_id="?",
            milliseconds=round((kernel.clock.boot_seconds() - began) * 1000, 3),
            outcome=outcome,
        )
    )


def _tagged(body: bytes, headers: Headers, caching: str) -> Response:
    tag = f'"{sha256_hex(body)}"'
    known = {each.strip().removeprefix("W/") for each in headers.get("if-none-match", "").split(",")}
    about = {"etag": tag, "cache-control": caching, "vary": "Authorization"}
    if known & {tag, "*"}:
        return Response(status_code=304, headers=about)
    return Response(body, headers=about, media_type="application/json")


def _openapi_endpoint(door: ForgeDoor) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            door.check_address(request.headers)
        except Refusal as refusal:
            return refused(refusal)
        return _tagged(openapi_bytes(), request.headers, REVALIDATED)

    return endpoint


def openapi_bytes() -> bytes:
    """Return the description of all routes."""
    operations = [
        Operation(method="get", path=each.path, summary=each.summary, answer=each.answer, scope=each.scope)
        for each in READ_ROUTES
    ] + [
        Operation(
            method=each.method.lower(),
            path=each.path,
            summary=each.summary,
            answer=each.answer,
            scope=each.scope,
            status=each.status,
            body=None if each.method == "GET" or each.body is NoBody else each.body,
            refusals=(400, *ALWAYS) if each.method == "GET" else (400, *ALWAYS, 415),
            is_tagged=False,
        )
        for each in TOOL_ROUTES
    ]
    return msgspec.json.encode(openapi_document(operations))
