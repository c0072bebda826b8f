"""Routes of a platform: its pages, their stream, and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from aop.core.errors import Refusal
from aop.kernel.gateway.calls import refusal_envelope
from aop.kernel.gateway.page_sessions import PageSession
from aop.kernel.gateway.tokens import Reach
from aop.kernel.record.documents.features import Status
from aop.web.forge.forge_door import refused
from aop.web.pages.frame import parts_at_hand, wants_part
from aop.web.pages.page_events import News, PageEvents
from aop.web.pages.page_routes import refused_page, session_routes
from aop.web.pages.templates import HEADERS, html_response, render
from aop.web.platform.metrics import (
    MEDIA_TYPE,
    METRICS,
    RepositoryFigures,
    build_gauge,
    fleet_gauges,
    metrics_text,
    repository_gauges,
)
from aop.web.platform.overview import Overview, RepositoryFacts
from aop.web.platform.platform_door import PlatformDoor
from aop.web.platform.platform_pages import (
    PLATFORM_MENU,
    PLATFORM_PAGES,
    PlatformFrame,
    PlatformPage,
    PlatformVisit,
    waiting_rows,
)

NEWS_SECONDS = 0.5
BEAT_SECONDS = 2.0
"""The page of workers is drawn again with each of these."""


def platform_routes(door: PlatformDoor, title: str, stopping: asyncio.Event) -> list[BaseRoute]:
    """Return everything that a platform answers to; `title` names it on its pages."""

    def news(session: PageSession, after: int) -> News | None:
        number = door.overview.number(session.reach)
        return None if number == after else News(after=after, seq=number)

    events = PageEvents(door, stopping, news, gather_seconds=NEWS_SECONDS, heartbeat_seconds=BEAT_SECONDS)
    return [
        *(Route(page.path, _page_endpoint(door, page, title), methods=["GET"]) for page in PLATFORM_PAGES),
        *session_routes(door),
        events.route(),
        Route(METRICS, _metrics_endpoint(door), methods=["GET"]),
    ]


def _page_endpoint(door: PlatformDoor, page: PlatformPage, title: str) -> Callable[[Request], Any]:
    def draw(request: Request) -> Response:
        return html_response(request, _drawn(request, door, page, title))

    async def endpoint(request: Request) -> Response:
        try:
            return await door.in_thread(draw, request)
        except Refusal as refusal:
            error = refusal_envelope(refusal).error or {}
            return refused_page(request, error, way_in=door.sessions.command)

    return endpoint


def _drawn(request: Request, door: PlatformDoor, page: PlatformPage, title: str) -> str:
    session, overview = door.session(request), door.overview
    # Read before all else, so that a page is never older than it says.
    seq = overview.number(session.reach)
    repositories = overview.repositories(session.reach)
    chosen = request.query_params.get("repository", "")
    visit = PlatformVisit(overview=overview, session=session, repositories=repositories, chosen=chosen)
    frame = PlatformFrame(
        repository=title,
        waiting=len(waiting_rows(repositories)),
        leading=sum(bool(each.standing.leader) for each in repositories),
        seq=seq,
        now=overview.now(),
        form_token=session.form_token,
    )
    return render(
        page.template,
        {
            **page.facts(visit),
            "layout": "frame/part.html" if wants_part(request) else "frame/page.html",
            "frame": frame,
            "now": frame.now,
            "have": parts_at_hand(request),
            "menu": PLATFORM_MENU,
            "title": page.menu,
            "here": request.url.path,
            "menu_path": page.path,
            "chosen": chosen,
            "names": [each.name for each in repositories],
        },
    )


def _metrics_endpoint(door: PlatformDoor) -> Callable[[Request], Any]:
    def draw(request: Request) -> str:
        return platform_metrics(door.overview, door.reader(request).reach)

    async def endpoint(request: Request) -> Response:
        try:
            text = await door.in_thread(draw, request)
        except Refusal as refusal:
            return refused(refusal)
        return Response(text, 200, HEADERS, MEDIA_TYPE)

    return endpoint


def platform_metrics(overview: Overview, reach: Reach) -> str:
    """Return the figures of all that a reach opens."""
    figures = [_figures(each) for each in overview.repositories(reach)]
    return metrics_text([build_gauge(), *repository_gauges(figures), *fleet_gauges(overview.fleet(reach))])


def _figures(facts: RepositoryFacts) -> RepositoryFigures:
    return RepositoryFigures(
        name=facts.name,
        statuses={status.value: facts.count(status) for status in Status},
        questions=len(facts.questions),
        is_led=bool(facts.standing.leader),
        spent=facts.spent,
    )
