"""Routes of the pages: what a browser can ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from aop.core.errors import Refusal, UnknownRoute
from aop.kernel.gateway.calls import refusal_envelope
from aop.web.bodies import form_fields, read_body
from aop.web.forge.forge_door import status_of
from aop.web.pages.actions import ACTIONS, LARGEST_FORM, OWN_ACTIONS, act, way_back
from aop.web.pages.feature.evidence_tab import bundle_download
from aop.web.pages.frame import ToolRefused, Visit, parts_at_hand, read_frame, wants_part
from aop.web.pages.page_door import PageDoor, SessionDoor, Visitor
from aop.web.pages.page_events import PageEvents, journal_news
from aop.web.pages.page_list import MENU, PAGES, Page
from aop.web.pages.templates import HEADERS, html_response, render, static_response

FORM = "application/x-www-form-urlencoded"
DOWNLOADS: Mapping[str, Callable[[PageDoor, Visitor, Mapping[str, str]], tuple[str, bytes]]] = {
    "bundle": bundle_download
}
"""The forms that answer with a file."""
STATUS_OF_PAGE: Mapping[str, int] = {
    "page_session_invalid": 401,
    "page_link_invalid": 403,
    "page_form_invalid": 400,
    "ticket_run_not_found": 404,
}
"""The statuses of refusals that only pages answer with."""


def page_routes(door: PageDoor, stopping: asyncio.Event) -> list[BaseRoute]:
    """Return the pages, their forms, their files, the way in, and the stream that keeps them true."""
    return [
        *(Route(page.path, _page_endpoint(door, page), methods=["GET"]) for page in PAGES),
        Route("/do/{action}", _action_endpoint(door), methods=["POST"]),
        *session_routes(door),
        PageEvents(door, stopping, lambda _session, after: journal_news(door.kernel.record, after)).route(),
    ]


def session_routes(door: SessionDoor) -> list[BaseRoute]:
    """Return the way in, and the files that all pages share."""
    return [
        Route("/enter", _entrance(door), methods=["GET"]),
        Route("/static/{digest}/{name}", _static(door), methods=["GET"]),
    ]


def _page_endpoint(door: PageDoor, page: Page) -> Callable[[Request], Any]:
    def draw(request: Request) -> Response:
        visitor = door.visitor(request)
        visit = Visit(door=door, visitor=visitor, path=request.path_params, query=request.query_params)
        try:
            return html_response(request, _drawn(request, visit, page))
        except ToolRefused as refused:
            return refused_page(request, refused.error)

    async def endpoint(request: Request) -> Response:
        try:
            return await door.in_thread(draw, request)
        except Refusal as refusal:
            return refused_page(request, refusal_envelope(refusal).error or {})

    return endpoint


def _drawn(request: Request, visit: Visit, page: Page) -> str:
    seq = visit.door.newest_seq()
    dashboard = visit.ask("report.dashboard")
    frame = read_frame(visit, dashboard, seq)
    facts = page.facts(visit, dashboard, frame)
    return render(
        page.template,
        {
            **facts,
            "layout": "frame/part.html" if wants_part(request) else "frame/page.html",
            "frame": frame,
            "now": frame.now,
            "have": parts_at_hand(request),
            "menu": MENU,
            "title": page.title or next(iter(visit.path.values()), ""),
            "here": request.url.path,
            "menu_path": page.path if page.menu else "",
            "new_operation": lambda: visit.door.kernel.new_id("op"),
        },
    )


def _action_endpoint(door: PageDoor) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            visitor = await door.in_thread(door.visitor, request)
            fields = form_fields(await read_body(request, FORM, largest=LARGEST_FORM))
            door.check_form(request, visitor.session, fields)
            name = request.path_params["action"]
            if name in DOWNLOADS:
                return await door.in_thread(_download, request, door, visitor, fields)
            if name not in ACTIONS and name not in OWN_ACTIONS:
                raise UnknownRoute("There is no such form.")
            answer = await door.in_thread(act, door, visitor, name, fields)
        except Refusal as refusal:
            return refused_page(request, refusal_envelope(refusal).error or {})
        if answer.error is not None:
            return refused_page(request, answer.error, back=way_back(fields))
        return RedirectResponse(way_back(fields), 303, HEADERS)

    return endpoint


def _download(request: Request, door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> Response:
    """Return a file that the browser stores and never shows. Raises: Refusal."""
    try:
        name, content = DOWNLOADS[request.path_params["action"]](door, visitor, fields)
    except ToolRefused as refused:
        return refused_page(request, refused.error, back=way_back(fields))
    kind = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, {**HEADERS, **kind}, "application/gzip")


def _entrance(door: SessionDoor) -> Callable[[Request], Any]:
    """Turn the link of a person into a cookie, and lead on without the link in the address."""

    async def endpoint(request: Request) -> Response:
        try:
            door.check_address(request.headers)
            cookie = await door.in_thread(door.sessions.enter, request.query_params.get("link", ""))
        except Refusal as refusal:
            return refused_page(request, refusal_envelope(refusal).error or {}, way_in=door.sessions.command)
        response = RedirectResponse(way_back({"back": request.query_params.get("to", "/")}), 303, HEADERS)
        door.give_cookie(response, cookie)
        return response

    return endpoint


def _static(door: SessionDoor) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            door.check_address(request.headers)
            found = static_response(request, request.path_params["name"])
            if found is None:
                raise UnknownRoute("There is no such file.")
        except Refusal as refusal:
            return refused_page(request, refusal_envelope(refusal).error or {}, way_in=door.sessions.command)
        return found

    return endpoint


def refused_page(request: Request, error: Mapping[str, Any], back: str = "", *, way_in: str = "aop web") -> Response:
    """Return the page that says what was refused, and what to do; it shows nothing of the record."""
    status = STATUS_OF_PAGE.get(error["code"]) or status_of(error["code"])
    facts = {"error": error, "back": back, "way_in": way_in, "again": quote(request.url.path, safe="/")}
    return html_response(request, render("frame/refused.html", facts), status)
