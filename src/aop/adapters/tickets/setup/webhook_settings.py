"""What the environment says about the webhooks of a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from aop.adapters.tickets.setup.servers import listed_words
from aop.adapters.tickets.setup.settings import whole_number_of
from aop.tickets.webhook_deliveries import DeliveryRules

SECRET = "JIRA_WEBHOOK_SECRET"
PROJECTS = "JIRA_WEBHOOK_PROJECTS"
TRIGGERS: Mapping[str, str] = {"scaffold": "SCAFFOLDING_TRIGGER_STATE", "review": "CODE_REVIEW_TRIGGER_STATE"}


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """How deliveries are taken; without a secret, none is."""

    secret: str
    rules: Mapping[str, DeliveryRules]
    at_once: int
    """How many runs of a kind go on at the same time."""
    most_waiting: int


def webhook_settings(environ: Mapping[str, str]) -> WebhookSettings:
    """Read them.

    Raises: TicketSettingMissing if a value cannot be read.
    """
    known = DeliveryRules(
        projects=frozenset(listed_words(environ.get(PROJECTS, ""))),
        site=(urlsplit(environ.get("JIRA_BASE_URL", "").strip()).hostname or ""),
        own_email=environ.get("JIRA_USER_EMAIL", "").strip(),
    )
    return WebhookSettings(
        secret=environ.get(SECRET, "").strip(),
        rules={
            kind: msgspec.structs.replace(known, trigger_state=environ.get(name, "").strip())
            for kind, name in TRIGGERS.items()
        },
        at_once=max(1, whole_number_of(environ, "TICKET_RUNS_AT_ONCE", 2)),
        most_waiting=whole_number_of(environ, "TICKET_RUNS_WAITING", 1_000),
    )
