"""Webhook deliveries of a tracker: their proof, and the work that they request.

A delivery is only a hint: AOP uses the key of the ticket and reads the ticket itself.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Json, MissionMissing, Refusal, TicketKeyInvalid, WebhookMalformed
from aop.core.text.json import MalformedText, parse_json
from aop.tickets.mission.blocks import review_params, scaffolding_mission
from aop.tickets.mission.keys import project_of, ticket_key

EVENTS = frozenset(["jira:issue_created", "jira:issue_updated"])
_SIGNATURE = re.compile(r"sha256=([0-9a-f]{64})", re.ASCII)
_MISSIONS: Mapping[str, Callable[[Json], object]] = {"scaffold": scaffolding_mission, "review": review_params}
_Word = Annotated[str, Meta(max_length=2_000)]


class Proof(Struct, frozen=True, kw_only=True):
    """The signature and the key of a request; each that is present must be valid."""

    signature: str | None
    api_key: str | None

    def holds(self, secret: str, body: bytes) -> bool:
        """Tell whether the proof fits the secret and the bytes of the body."""
        wanted = secret.encode()
        signature = hmac.new(wanted, body, "sha256").hexdigest()
        is_signed = self.signature is None or hmac.compare_digest(self.signature, signature)
        is_keyed = self.api_key is None or hmac.compare_digest(self.api_key.encode("latin-1", "replace"), wanted)
        return is_signed and is_keyed


class DeliveryRules(Struct, frozen=True, kw_only=True):
    """Rules for the deliveries that request a kind of work."""

    trigger_state: str = ""
    """Empty: each delivery whose description has the block."""
    projects: frozenset[str] = frozenset()
    """Empty: all."""
    site: str = ""
    own_email: str = ""


class TicketRequest(Struct, frozen=True, kw_only=True):
    """A request for work on a ticket."""

    key: str
    sent: int
    """The time of the delivery in milliseconds; 0 if it has none."""


class IgnoredDelivery(Struct, frozen=True, kw_only=True):
    """An authentic delivery that requests no work."""

    reason: str


class _Item(Struct, frozen=True):
    field: _Word = ""
    to: _Word | None = msgspec.field(name="toString", default=None)


class _Changelog(Struct, frozen=True):
    items: Annotated[list[_Item], Meta(max_length=1_000)] = []


class _Project(Struct, frozen=True):
    key: _Word


class _Fields(Struct, frozen=True):
    description: Any = None
    updated: _Word | None = None
    project: _Project | None = None


class _Issue(Struct, frozen=True):
    key: _Word
    fields: _Fields = _Fields()
    address: _Word = msgspec.field(name="self", default="")


class _User(Struct, frozen=True):
    email: _Word | None = msgspec.field(name="emailAddress", default=None)


class _Delivery(Struct, frozen=True):
    issue: _Issue
    event: _Word = msgspec.field(name="webhookEvent", default="")
    timestamp: Annotated[int, Meta(ge=0, le=10**15)] = 0
    user: _User | None = None
    changelog: _Changelog | None = None


def offered_proof(signatures: Sequence[str], api_keys: Sequence[str]) -> Proof | None:
    """Return the proof of a request; None if it has none, more than one of a kind, or one of an unknown form."""
    if len(signatures) > 1 or len(api_keys) > 1 or not (signatures or api_keys):
        return None
    found = _SIGNATURE.fullmatch(signatures[0]) if signatures else None
    if (signatures and found is None) or (api_keys and not api_keys[0]):
        return None
    return Proof(signature=found[1] if found else None, api_key=api_keys[0] if api_keys else None)


def requested_work(body: bytes, kind: str, rules: DeliveryRules) -> TicketRequest | IgnoredDelivery:
    """Return the work that an authentic delivery requests, or why it is ignored. Raises: WebhookMalformed."""
    delivery = _read(body)
    issue = delivery.issue
    if delivery.event and delivery.event not in EVENTS:
        return IgnoredDelivery(reason="The event is neither a new nor a changed ticket.")
    if rules.projects and project_of(issue.key) not in rules.projects:
        return IgnoredDelivery(reason="The project is not listed in `JIRA_WEBHOOK_PROJECTS`.")
    if rules.site and issue.address and (urlsplit(issue.address).hostname or "") != rules.site:
        return IgnoredDelivery(reason="The ticket belongs to a site other than `JIRA_BASE_URL`.")
    if rules.own_email and delivery.user and (delivery.user.email or "").casefold() == rules.own_email.casefold():
        return IgnoredDelivery(reason="AOP made this change itself.")
    if not _requests_work(delivery, kind, rules.trigger_state):
        unmoved, no_block = "The ticket was not moved to the trigger state.", "The description has no mission block."
        return IgnoredDelivery(reason=unmoved if rules.trigger_state else no_block)
    return TicketRequest(key=issue.key, sent=delivery.timestamp or _milliseconds(issue.fields.updated))


def _read(body: bytes) -> _Delivery:
    try:
        delivery = msgspec.convert(parse_json(body.decode()), type=_Delivery)
        key = ticket_key(delivery.issue.key)
    except (UnicodeDecodeError, MalformedText) as error:
        raise WebhookMalformed("The body is not JSON.") from error
    except msgspec.ValidationError as error:
        raise WebhookMalformed(f"The body is not a delivery of Jira: {error}.") from error
    except TicketKeyInvalid as error:
        raise WebhookMalformed("`issue.key` is not the key of a ticket.") from error
    project = delivery.issue.fields.project
    if project is not None and project.key != project_of(key):
        raise WebhookMalformed("`issue.key` does not belong to `issue.fields.project.key`.")
    return delivery


def _requests_work(delivery: _Delivery, kind: str, trigger_state: str) -> bool:
    if trigger_state:
        items = delivery.changelog.items if delivery.changelog else []
        moved = [item.to or "" for item in items if item.field == "status"]
        return any(state.casefold() == trigger_state.casefold() for state in moved)
    try:
        _MISSIONS[kind](delivery.issue.fields.description)
    except MissionMissing:
        return False
    except Refusal:
        # The block is there but invalid; the run comments on that.
        return True
    return True


def _milliseconds(moment: str | None) -> int:
    try:
        return int(datetime.fromisoformat(moment or "").timestamp() * 1000)
    except ValueError:
        return 0
