"""Webhooks of a tracker: endpoints that authenticate a delivery and open its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aop.core import errors
from aop.core.ids import RunId
from aop.kernel.gateway.calls import refusal_envelope
from aop.tickets.runs.deliveries import DUPLICATE, AcceptedDelivery, accept_delivery
from aop.tickets.runs.storage import RunLedger
from aop.tickets.webhook_deliveries import DeliveryRules, IgnoredDelivery, offered_proof, requested_work

PATHS: Mapping[str, str] = {
    "scaffold": "/webhooks/jira/scaffolding-trigger",
    "review": "/webhooks/jira/code-review-trigger",
}
LARGEST_BODY = 1024 * 1024
BODY_SECONDS = 10.0
RETRY_SECONDS = "30"

STATUSES: Mapping[type[errors.Refusal], int] = {
    errors.WebhookDisabled: 404,
    errors.WebhookUnauthorized: 401,
    errors.WebhookUnsupported: 415,
    errors.WebhookTooLarge: 413,
    errors.WebhookTooSlow: 408,
    errors.WebhookMalformed: 400,
    errors.WebhookQueueFull: 429,
}
"""Other refusals are 503: this server is not set up for the work."""


class DeliveryRuns(Struct, frozen=True, kw_only=True):
    """The runs that deliveries begin: where they are stored, and what carries them out."""

    ledger: RunLedger
    submit: Callable[[str, RunId, str], None]
    refusals: Mapping[str, errors.Refusal]
    """Why a kind of work cannot be done here."""


class WebhookIntake(Struct, frozen=True, kw_only=True):
    """The settings and ports of the endpoints."""

    secret: str
    rules: Mapping[str, DeliveryRules]
    most_waiting: int
    runs_of: Callable[[str], DeliveryRuns]
    """Returns the runs of a ticket, by its key. Raises: Refusal."""
    now: Callable[[], str]
    body_seconds: float = BODY_SECONDS


def webhook_routes(intake: WebhookIntake | None) -> list[Route]:
    """Return the two endpoints; without an intake they answer that they are disabled."""
    return [Route(path, _endpoint(kind, intake), methods=["POST"]) for kind, path in PATHS.items()]


def _endpoint(kind: str, intake: WebhookIntake | None) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            if intake is None:
                raise errors.WebhookDisabled("Webhooks are disabled: `JIRA_WEBHOOK_SECRET` is not set.")
            answer = await _answer_to(kind, intake, request)
        except errors.Refusal as refusal:
            status = STATUSES.get(type(refusal), 503)
            headers = {"retry-after": RETRY_SECONDS} if status in (429, 503) else {}
            return JSONResponse(refusal_envelope(refusal).as_json(), status, headers)
        body = msgspec.to_builtins(answer)
        if isinstance(answer, IgnoredDelivery):
            return JSONResponse({"status": "ignored", **body}, 200)
        return JSONResponse(body, 202)

    return endpoint


async def _answer_to(kind: str, intake: WebhookIntake, request: Request) -> AcceptedDelivery | IgnoredDelivery:
    """Check the headers first, and parse the body only if it is authentic."""
    headers = request.headers
    proof = offered_proof(headers.getlist("x-hub-signature"), headers.getlist("x-api-key"))
    if proof is None:
        raise errors.WebhookUnauthorized("The request needs one `X-Hub-Signature` or one `X-API-KEY`.")
    _check_encoding(request)
    body = await _read_body(request, intake.body_seconds)
    if not proof.holds(intake.secret, body):
        raise errors.WebhookUnauthorized("The signature or the key is invalid.")
    wanted = requested_work(body, kind, intake.rules[kind])
    if isinstance(wanted, IgnoredDelivery):
        return wanted
    names = [
        sha256(body).hexdigest(),
        *(f"id:{name[:200]}" for name in headers.getlist("x-atlassian-webhook-identifier")),
    ]

    def accept() -> AcceptedDelivery | IgnoredDelivery:
        runs = intake.runs_of(wanted.key)
        if kind in runs.refusals:
            raise runs.refusals[kind]
        answer = accept_delivery(runs.ledger, kind, wanted, names, at=intake.now(), most_waiting=intake.most_waiting)
        # A duplicate too: the process that accepted it may have ended before it queued the run.
        if isinstance(answer, AcceptedDelivery) and (
            answer.status != DUPLICATE or runs.ledger.is_active(answer.run_id)
        ):
            runs.submit(kind, answer.run_id, wanted.key)
        return answer

    return await asyncio.to_thread(accept)


def _check_encoding(request: Request) -> None:
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or len(headers.getlist("content-type")) > 1:
        raise errors.WebhookUnsupported("The content type is not `application/json`.")
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise errors.WebhookUnsupported("The body is compressed.")
    if headers.get("content-length", "").isdecimal() and int(headers["content-length"][:20]) > LARGEST_BODY:
        raise errors.WebhookTooLarge(f"The body is larger than {LARGEST_BODY} bytes.", largest=LARGEST_BODY)


async def _read_body(request: Request, seconds: float) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise errors.WebhookTooLarge(f"The body is larger than {LARGEST_BODY} bytes.", largest=LARGEST_BODY)
    except (TimeoutError, ClientDisconnect) as error:
        raise errors.WebhookTooSlow(f"The body did not arrive within {seconds:.0f} seconds.") from error
    return bytes(body)
