"""Settings of the work on tickets and of webhooks, from the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.tickets.mcp.stdio_client import ServerCommand
from aop.adapters.tickets.setup.servers import PASSED_ON, PROVIDERS, listed_words
from aop.brains.budgets import LoopLimits
from aop.core.errors import Json, TicketProviderUnsupported, TicketSettingMissing
from aop.tickets.steps import TicketSettings
from aop.tickets.webhook_deliveries import DeliveryRules

LOCAL = "LOCAL"
LOCAL_FOLDER = "AOP_LOCAL_FOLDER"
VCS_PROVIDER, TRACKER_PROVIDER, KNOWLEDGE_PROVIDER = "VCS_PROVIDER", "TRACKER_PROVIDER", "KNOWLEDGE_PROVIDER"
SUPPORTED = {
    VCS_PROVIDER: (LOCAL, "GITLAB"),
    TRACKER_PROVIDER: (LOCAL, "JIRA"),
    KNOWLEDGE_PROVIDER: (LOCAL, "CONFLUENCE"),
}
STATES = ("WORKFLOW_STATE_INITIAL", "WORKFLOW_STATE_SUCCESS")
ALLOWLISTED_GROUPS = "ALLOWLISTED_GROUPS"
SCAFFOLDING = "scaffolding"
NO_LIMIT = "none"
TRIGGERS: Mapping[str, str] = {"scaffold": "SCAFFOLDING_TRIGGER_STATE", "review": "CODE_REVIEW_TRIGGER_STATE"}

_COST = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,4})?")


class ChosenSystems(Struct, frozen=True, kw_only=True):
    """The system behind each port."""

    vcs: str
    """Empty: not supported."""
    tracker: str
    docs: str
    groups: tuple[str, ...]
    """The groups whose projects are allowed; empty: all."""
    may_approve: bool = False


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """Settings for webhook deliveries; without a secret they are disabled."""

    secret: str
    rules: Mapping[str, DeliveryRules]
    at_once: int
    """The number of concurrent runs of each kind."""
    most_waiting: int


def ticket_settings(environ: Mapping[str, str], product: str) -> tuple[TicketSettings, ChosenSystems]:
    """Read a product's settings. Raises: TicketProviderUnsupported; TicketSettingMissing, with all that is missing."""
    named = _providers(environ, product)
    unsupported = named[VCS_PROVIDER] if named[VCS_PROVIDER].upper() not in SUPPORTED[VCS_PROVIDER] else ""
    providers = {name: provider.upper() for name, provider in named.items() if provider != unsupported}
    wanted = (*(STATES if product == SCAFFOLDING else ()), "ARCHITECTURE_DOC_PAGE_ID")
    found = {name: environ.get(name, "").strip() for name in wanted}
    missing: list[Json] = [name for name, value in (*named.items(), *found.items()) if not value]
    missing += [name for name in _needed(set(providers.values())) if not environ.get(name, "").strip()]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise TicketSettingMissing(f"Not set in the environment: {names}.", missing=missing)
    may_approve = product != SCAFFOLDING and _switch(environ, "CODE_REVIEW_ALLOW_APPROVE", default=False)
    settings = TicketSettings(
        state_initial=found.get(STATES[0], ""),
        state_success=found.get(STATES[1], ""),
        architecture_page_id=found["ARCHITECTURE_DOC_PAGE_ID"],
        rollback_on_failure=_switch(environ, "TRACKER_ROLLBACK_ON_FAILURE", default=True),
        max_diff_chars=_whole_number(environ, "CODE_REVIEW_MAX_DIFF_CHARS", 60_000),
        unsupported_vcs=unsupported[:40],
        recovery_enabled=_switch(environ, "AGENT_RECOVERY_ENABLED", default=False),
        may_approve=may_approve,
        limits=_limits(environ),
    )
    return settings, ChosenSystems(
        vcs=providers.get(VCS_PROVIDER, ""),
        tracker=providers[TRACKER_PROVIDER],
        docs=providers[KNOWLEDGE_PROVIDER],
        groups=listed_words(environ.get(ALLOWLISTED_GROUPS, "")),
        may_approve=may_approve,
    )


def webhook_settings(environ: Mapping[str, str]) -> WebhookSettings:
    """Read the webhook settings. Raises: TicketSettingMissing if a value is invalid."""
    known = DeliveryRules(
        projects=frozenset(listed_words(environ.get("JIRA_WEBHOOK_PROJECTS", ""))),
        site=(urlsplit(environ.get("JIRA_BASE_URL", "").strip()).hostname or ""),
        own_email=environ.get("JIRA_USER_EMAIL", "").strip(),
    )
    return WebhookSettings(
        secret=environ.get("JIRA_WEBHOOK_SECRET", "").strip(),
        rules={kind: replace(known, trigger_state=environ.get(name, "").strip()) for kind, name in TRIGGERS.items()},
        at_once=max(1, _whole_number(environ, "TICKET_RUNS_AT_ONCE", 2)),
        most_waiting=_whole_number(environ, "TICKET_RUNS_WAITING", 1_000),
    )


def _limits(environ: Mapping[str, str]) -> LoopLimits:
    """Return the limits of a model with tools; only the cost may be unlimited, for models without a price."""
    cost = environ.get("AGENTIC_MAX_COST_USD", "").strip() or "1.00"
    if cost != NO_LIMIT and not _COST.fullmatch(cost):
        raise TicketSettingMissing(
            f"`AGENTIC_MAX_COST_USD` is neither an amount such as `1.00` nor `{NO_LIMIT}`.",
            missing=["AGENTIC_MAX_COST_USD"],
        )
    return LoopLimits(
        max_iterations=_whole_number(environ, "AGENTIC_MAX_ITERATIONS", 20),
        max_seconds=float(_whole_number(environ, "AGENTIC_MAX_SECONDS", 900)),
        max_tokens=_whole_number(environ, "AGENTIC_MAX_TOKENS", 1_000_000),
        max_cost_usd=None if cost == NO_LIMIT else float(cost),
    )


def local_server(environ: Mapping[str, str]) -> ServerCommand:
    """Return the command that starts LOCAL's server, with the environment that it needs."""
    return ServerCommand(
        name="local",
        command=sys.executable,
        args=("-m", "aop.adapters.tickets.systems.local.server", os.path.abspath(environ[LOCAL_FOLDER])),
        env={name: environ[name] for name in PASSED_ON if name in environ},
    )


def _providers(environ: Mapping[str, str], product: str) -> dict[str, str]:
    """Return the provider of each port from the environment, or an empty text."""
    own = "SCAFFOLDING_" if product == SCAFFOLDING else ""
    found = {name: (environ.get(f"{own}{name}") or environ.get(name) or "").strip() for name in SUPPORTED}
    for name, provider in found.items():
        # About the system of the code, a comment on the ticket is possible.
        if provider and provider.upper() not in SUPPORTED[name] and name != VCS_PROVIDER:
            supported: list[Json] = [*SUPPORTED[name]]
            raise TicketProviderUnsupported(
                f"`{name}` is `{provider[:40]}`, which AOP does not support.", variable=name, supported=supported
            )
    return found


def _needed(providers: set[str]) -> list[str]:
    """Return the variables that providers need."""
    known = [PROVIDERS[name] for name in PROVIDERS if name in providers]
    return [
        *([LOCAL_FOLDER] if LOCAL in providers else []),
        *(name for provider in known for name in (provider.address, provider.token)),
    ]


def _whole_number(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in a variable. Raises: TicketSettingMissing."""
    text = environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TicketSettingMissing(f"`{name}` is not a whole number.", missing=[name])
    return int(text)


def _switch(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environ.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise TicketSettingMissing(f"`{name}` is neither `true` nor `false`.", missing=[name])
    return default if not text else text == "true"
