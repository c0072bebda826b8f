"""The webhooks of a tracker: who sent it, what it asks for, and the run that it gets; the work is done elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aop.core.errors import (
    Refusal,
    WebhookDisabled,
    WebhookMalformed,
    WebhookQueueFull,
    WebhookTooLarge,
    WebhookTooSlow,
    WebhookUnauthorized,
    WebhookUnsupported,
)
from aop.core.ids import RunId
from aop.kernel.gateway.calls import refusal_envelope
from aop.tickets.runs.deliveries import DUPLICATE, AcceptedDelivery, accept_delivery
from aop.tickets.runs.storage import RunLedger
from aop.tickets.webhook_deliveries import DeliveryRules, Ignored, judged, offered_proof

PATHS: Mapping[str, str] = {
    "scaffold": "/webhooks/jira/scaffolding-trigger",
    "review": "/webhooks/jira/code-review-trigger",
}
LARGEST_BODY = 1024 * 1024
BODY_SECONDS = 10.0
RETRY_SECONDS = "30"

STATUSES: Mapping[type[Refusal], int] = {
    WebhookDisabled: 404,
    WebhookUnauthorized: 401,
    WebhookUnsupported: 415,
    WebhookTooLarge: 413,
    WebhookTooSlow: 408,
    WebhookMalformed: 400,
    WebhookQueueFull: 429,
}
"""Everything else means that this server is not set up for the work."""


class WebhookIntake(Struct, frozen=True, kw_only=True):
    """What deliveries are taken with."""

    secret: str
    rules: Mapping[str, DeliveryRules]
    ledger: RunLedger
    most_waiting: int
    refusals: Mapping[str, Refusal]
    """Why a kind of work cannot be done here."""
    submit: Callable[[str, RunId, str], None]
    now: Callable[[], str]
    body_seconds: float = BODY_SECONDS


def webhook_routes(intake: WebhookIntake | None) -> list[Route]:
    """Return the two endpoints; without an intake they say that they are disabled."""
    return [Route(path, _endpoint(kind, intake), methods=["POST"]) for kind, path in PATHS.items()]


def _endpoint(kind: str, intake: WebhookIntake | None) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            if intake is None:
                raise WebhookDisabled("This server takes no webhooks: `JIRA_WEBHOOK_SECRET` is not set.")
            answer = await _answered(kind, intake, request)
        except Refusal as refusal:
            status = STATUSES.get(type(refusal), 503)
            headers = {"retry-after": RETRY_SECONDS} if status in (429, 503) else {}
            return JSONResponse(refusal_envelope(refusal).as_json(), status, headers)
        told = msgspec.to_builtins(answer)
        if isinstance(answer, Ignored):
            return JSONResponse({"status": "ignored", **told}, 200)
        return JSONResponse(told, 202)

    return endpoint


async def _answered(kind: str, intake: WebhookIntake, request: Request) -> AcceptedDelivery | Ignored:
    """Look at what costs nothing first, and at what the body says only if it is authentic."""
    headers = request.headers
    proof = offered_proof(headers.getlist("x-hub-signature"), headers.getlist("x-api-key"))
    if proof is None:
        raise WebhookUnauthorized("The request has no proof of where it comes from, or more than one of a kind.")
    _check_encoding(request)
    body = await _body(request, intake.body_seconds)
    if not proof.holds(intake.secret, body):
        raise WebhookUnauthorized("The signature or the key is wrong.")
    wanted = judged(body, kind, intake.rules[kind])
    if isinstance(wanted, Ignored):
        return wanted
    if kind in intake.refusals:
        raise intake.refusals[kind]
    names = [
        sha256(body).hexdigest(),
        *(f"id:{name[:200]}" for name in headers.getlist("x-atlassian-webhook-identifier")),
    ]

    def accept() -> AcceptedDelivery | Ignored:
        answer = accept_delivery(intake.ledger, kind, wanted, names, at=intake.now(), most_waiting=intake.most_waiting)
        # A duplicate too: the process that accepted it may have ended before it queued the run.
        if isinstance(answer, AcceptedDelivery) and (
            answer.status != DUPLICATE or intake.ledger.is_active(answer.run_id)
        ):
            intake.submit(kind, answer.run_id, wanted.key)
        return answer

    return await asyncio.to_thread(accept)


def _check_encoding(request: Request) -> None:
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or len(headers.getlist("content-type")) > 1:
        raise WebhookUnsupported("The body is not said to be `application/json`.")
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WebhookUnsupported("The body is compressed.")
    if headers.get("content-length", "").isdecimal() and int(headers["content-length"][:20]) > LARGEST_BODY:
        raise WebhookTooLarge(f"The body is larger than {LARGEST_BODY} bytes.", largest=LARGEST_BODY)


async def _body(request: Request, seconds: float) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise WebhookTooLarge(f"The body is larger than {LARGEST_BODY} bytes.", largest=LARGEST_BODY)
    except (TimeoutError, ClientDisconnect) as error:
        raise WebhookTooSlow(f"The body did not arrive within {seconds:.0f} seconds.") from error
    return bytes(body)
