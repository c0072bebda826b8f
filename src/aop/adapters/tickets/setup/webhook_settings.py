"""Webhook settings, from the environment."""

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
    """Settings for webhook deliveries; without a secret they are disabled."""

    secret: str
    rules: Mapping[str, DeliveryRules]
    at_once: int
    """The number of concurrent runs of each kind."""
    most_waiting: int


def webhook_settings(environ: Mapping[str, str]) -> WebhookSettings:
    """Read the webhook settings. Raises: TicketSettingMissing if a value is invalid."""
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
