"""Ticket system checks: settings, installed servers and, on request, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from aop.adapters.reporting.doctor.checks import Check, failure, fine, warning
from aop.adapters.tickets.loop_thread import running_loop
from aop.adapters.tickets.mcp.stdio_client import ServerCommand
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.setup import servers
from aop.adapters.tickets.setup.install import FoundProvider, found_provider
from aop.adapters.tickets.systems import confluence, gitlab, jira
from aop.core.errors import Refusal
from aop.tickets.ports import KnownTool

NAME = "outbound"
VARIABLES = ("VCS_PROVIDER", "TRACKER_PROVIDER", "KNOWLEDGE_PROVIDER")


def check_outbound(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the settings and the server of each provider that the environment names; sends no request."""
    for provider in _chosen_systems(environ):
        found = found_provider(provider, environ)
        unset = [name for name, is_set in found.variables.items() if not is_set]
        if unset:
            yield failure(NAME, f"{found.provider}: not set: {', '.join(unset)}", "Set them where `aop` is started.")
        elif not found.installed:
            fix = f"Run: aop outbound install {found.provider}"
            yield failure(NAME, f"{found.provider}: {found.package} is not installed", fix)
        else:
            yield _version_check(found)


def check_tokens(environ: Mapping[str, str], redact: Callable[[str], str]) -> Iterator[Check]:
    """Send each provider that the environment names one read-only request."""
    for provider in _chosen_systems(environ):
        if not found_provider(provider, environ).usable:
            continue
        try:
            command = servers.server_command(servers.SERVERS[provider.server], frozenset([provider.name]), environ)
            result = asyncio.run(_probe(provider, command, environ, redact))
        except Refusal as refused:
            yield failure(NAME, f"{provider.name.lower()}: {refused.message}", refused.next_action)
        else:
            yield fine(NAME, f"{provider.name.lower()}: {result}")


def _version_check(found: FoundProvider) -> Check:
    if found.version not in (None, found.tested_version):
        versions = f"{found.provider}: {found.package} {found.version}, tested with {found.tested_version}"
        return warning(NAME, versions, f"Run: aop outbound install {found.provider}")
    return fine(NAME, f"{found.provider}: {found.version or 'custom command'}, token set")


def _chosen_systems(environ: Mapping[str, str]) -> list[servers.TicketSystem]:
    named = {environ.get(f"{own}{name}", "").strip().upper() for own in ("", "SCAFFOLDING_") for name in VARIABLES}
    return [provider for name, provider in servers.PROVIDERS.items() if name in named]


async def _probe(
    provider: servers.TicketSystem, command: ServerCommand, environ: Mapping[str, str], redact: Callable[[str], str]
) -> str:
    table, read = _READS[provider.name]
    with running_loop("outbound") as portal:
        upstream = Upstream(command, tuple(table.values()), portal, redact)
        try:
            return await read(upstream, environ)
        finally:
            upstream.close()


async def _jira(upstream: Upstream, _environ: Mapping[str, str]) -> str:
    await jira.JiraTracker(upstream, waits=(), is_cloud=False).finds_tickets("created >= -1d")
    return "the token can search tickets"


async def _confluence(upstream: Upstream, environ: Mapping[str, str]) -> str:
    docs = confluence.ConfluenceDocs(upstream, waits=())
    page = environ.get("ARCHITECTURE_DOC_PAGE_ID", "").strip()
    if not page:
        await docs.get_project_context("aop")
        return "the token can search pages"
    await docs.get_architecture_context(page)
    return "the token can read the architecture page"


async def _gitlab(upstream: Upstream, _environ: Mapping[str, str]) -> str:
    return f"the token belongs to `{await gitlab.GitlabVcs(upstream, waits=()).who_am_i()}`"


_READS: Mapping[
    str, tuple[Mapping[str, KnownTool], Callable[[Upstream, Mapping[str, str]], Coroutine[Any, Any, str]]]
] = {
    servers.JIRA: (jira.TABLE, _jira),
    servers.CONFLUENCE: (confluence.TABLE, _confluence),
    servers.GITLAB: (gitlab.TABLE, _gitlab),
}
