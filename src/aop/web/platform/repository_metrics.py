"""Metrics of one repository: what its dashboard answers to the holder of a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aop.core.errors import Refusal
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents.usage import Spending
from aop.web.forge.forge_door import refused, status_of
from aop.web.pages.page_door import PageDoor
from aop.web.pages.templates import HEADERS
from aop.web.platform.metrics import (
    MEDIA_TYPE,
    METRICS,
    RepositoryFigures,
    build_gauge,
    metrics_text,
    repository_gauges,
)
from aop.web.platform.platform_door import bearer_token
from aop.wiring.supervisor_lease import lease_holder


def repository_metrics_route(door: PageDoor, name: str) -> Route:
    """Return the endpoint for tokens of `aop token`; what they show ends where their tools end."""
    return Route(METRICS, _endpoint(door, name), methods=["GET"])


def _endpoint(door: PageDoor, name: str) -> Callable[[Request], Any]:
    def draw(request: Request) -> Response:
        door.check_address(request.headers)
        principal = door.sessions.tokens.principal(bearer_token(request))
        answer = door.gateway.call(principal, "report.dashboard", {})
        if answer.error is not None:
            return JSONResponse(answer.as_json(), status_of(answer.error["code"]), {"cache-control": "no-store"})
        return Response(_text(door, name, answer), 200, HEADERS, MEDIA_TYPE)

    async def endpoint(request: Request) -> Response:
        try:
            return await door.in_thread(draw, request)
        except Refusal as refusal:
            return refused(refusal)

    return endpoint


def _text(door: PageDoor, name: str, answer: Envelope) -> str:
    seen = answer.data
    figures = RepositoryFigures(
        name=name,
        statuses=seen["counts"],
        questions=len({question for row in seen["features"] for question in row["asks"]}),
        is_led=lease_holder(door.root, door.kernel.record) is not None,
        spent=msgspec.convert(seen["spent"], Spending),
    )
    return metrics_text([build_gauge(), *repository_gauges([figures])])
