"""What the environment says about the work on tickets: providers, states, pages; no id or address has a default."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from aop.adapters.outbound.stdio_client import ServerCommand
from aop.brains.budgets import Limits
from aop.core.errors import Json, TicketProviderUnsupported, TicketSettingMissing
from aop.tickets.steps import TicketSettings

LOCAL = "LOCAL"
LOCAL_FOLDER = "AOP_LOCAL_FOLDER"
VCS_PROVIDER = "VCS_PROVIDER"
PROVIDERS = (VCS_PROVIDER, "TRACKER_PROVIDER", "KNOWLEDGE_PROVIDER")
STATES = ("WORKFLOW_STATE_INITIAL", "WORKFLOW_STATE_SUCCESS")
SCAFFOLDING = "scaffolding"

NO_LIMIT = "none"

_COST = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,4})?")
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")


def ticket_settings(environ: Mapping[str, str], product: str) -> TicketSettings:
    """Read the settings of the scaffolder or of the reviewer.

    Raises: TicketSettingMissing, with everything that is missing; TicketProviderUnsupported.
    """
    own = "SCAFFOLDING_" if product == SCAFFOLDING else ""
    providers = {name: environ.get(f"{own}{name}") or environ.get(name) or "" for name in PROVIDERS}
    wanted = (*(STATES if product == SCAFFOLDING else ()), "ARCHITECTURE_DOC_PAGE_ID")
    found = {name: environ.get(name, "").strip() for name in wanted}
    missing: list[Json] = [name for name, value in (*providers.items(), *found.items()) if not value]
    for name, provider in providers.items():
        # A reviewer with a tracker tells the ticket.
        told = product != SCAFFOLDING and name == VCS_PROVIDER
        if provider and provider.upper() != LOCAL and not told:
            raise TicketProviderUnsupported(
                f"`{name}` is `{provider[:40]}`, which this AOP cannot speak to.", variable=name, supported=[LOCAL]
            )
    if not environ.get(LOCAL_FOLDER):
        missing.append(LOCAL_FOLDER)
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise TicketSettingMissing(f"The environment lacks {names}.", missing=missing)
    return TicketSettings(
        state_initial=found.get(STATES[0], ""),
        state_success=found.get(STATES[1], ""),
        architecture_page_id=found["ARCHITECTURE_DOC_PAGE_ID"],
        rollback_on_failure=_switch(environ, "TRACKER_ROLLBACK_ON_FAILURE", default=True),
        max_diff_chars=_number(environ, "CODE_REVIEW_MAX_DIFF_CHARS", 60_000),
        unsupported_vcs="" if providers[VCS_PROVIDER].upper() == LOCAL else providers[VCS_PROVIDER][:40],
        recovery_enabled=_switch(environ, "AGENT_RECOVERY_ENABLED", default=False),
        limits=_limits(environ),
    )


def _limits(environ: Mapping[str, str]) -> Limits:
    """Return what a model in a loop may use; only what it costs may be left open, for models without a price."""
    cost = environ.get("AGENTIC_MAX_COST_USD", "").strip() or "1.00"
    if cost != NO_LIMIT and not _COST.fullmatch(cost):
        raise TicketSettingMissing(
            f"`AGENTIC_MAX_COST_USD` is neither an amount such as `1.00` nor `{NO_LIMIT}`.",
            missing=["AGENTIC_MAX_COST_USD"],
        )
    return Limits(
        max_iterations=_number(environ, "AGENTIC_MAX_ITERATIONS", 20),
        max_seconds=float(_number(environ, "AGENTIC_MAX_SECONDS", 900)),
        max_tokens=_number(environ, "AGENTIC_MAX_TOKENS", 1_000_000),
        max_cost_usd=None if cost == NO_LIMIT else float(cost),
    )


def local_server(environ: Mapping[str, str]) -> ServerCommand:
    """Return how LOCAL's server is started; it sees nothing of the environment but what it needs."""
    return ServerCommand(
        name="local",
        command=sys.executable,
        args=("-m", "aop.adapters.outbound.local.server", os.path.abspath(environ[LOCAL_FOLDER])),
        env={name: environ[name] for name in _PASSED_ON if name in environ},
    )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TicketSettingMissing(f"`{name}` is no whole number.", missing=[name])
    return int(text)


def _switch(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environ.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise TicketSettingMissing(f"`{name}` is neither `true` nor `false`.", missing=[name])
    return default if not text else text == "true"
