"""Assembly of the desk: the ports of the providers that the settings choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from aop.adapters.machine.clock import SystemClock, new_id
from aop.adapters.tickets.loop_thread import running_loop
from aop.adapters.tickets.mcp.stdio_client import ServerCommand
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.setup.addresses import is_atlassian_cloud
from aop.adapters.tickets.setup.servers import CONFLUENCE, GITLAB, JIRA, PROVIDERS, SERVERS, server_command, waits
from aop.adapters.tickets.setup.settings import LOCAL, ChosenSystems, local_server, ticket_settings
from aop.adapters.tickets.systems import confluence, gitlab, jira, local_ports
from aop.adapters.tickets.systems.confluence import ConfluenceDocs
from aop.adapters.tickets.systems.gitlab import GitlabVcs
from aop.adapters.tickets.systems.jira import JiraTracker
from aop.adapters.tickets.systems.local_ports import LocalDocs, LocalTracker, LocalVcs
from aop.brains.ports import Brain
from aop.core.redaction.redactor import Redactor
from aop.tickets.ports import DocsPort, KnownTool, TrackerPort, VcsPort
from aop.tickets.steps import Desk, Ledger

_TABLES: Mapping[str, Mapping[str, KnownTool]] = {
    LOCAL: local_ports.TABLE,
    JIRA: jira.TABLE,
    CONFLUENCE: confluence.TABLE,
    GITLAB: gitlab.TABLE,
}
_APPROVALS: Mapping[str, Mapping[str, KnownTool]] = {LOCAL: local_ports.APPROVAL, GITLAB: gitlab.APPROVAL}


@contextmanager
def ticket_desk(
    environ: Mapping[str, str],
    product: str,
    brain: Brain,
    ledger: Ledger,
    redact: Redactor,
    *,
    is_cut_off: Callable[[], bool] = lambda: False,
) -> Iterator[Desk]:
    """Open the desk of a product. Raises: TicketSettingMissing, TicketProviderUnsupported, OutboundServerMissing."""
    settings, chosen = ticket_settings(environ, product)
    with outbound_ports(environ, chosen, redact, is_cut_off) as (tracker, vcs, docs):
        yield Desk(
            tracker=tracker,
            vcs=vcs,
            docs=docs,
            brain=brain,
            ledger=ledger,
            clock=SystemClock(),
            redact=redact,
            new_fence=lambda: new_id("data"),
            settings=settings,
        )


@contextmanager
def outbound_ports(
    environ: Mapping[str, str],
    chosen: ChosenSystems,
    redact: Callable[[str], str],
    is_cut_off: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[TrackerPort, VcsPort, DocsPort]]:
    """Open the ports of the chosen providers; a server starts at its first call and ends with the block."""
    # For an unsupported system the pipeline only comments on the ticket, so its port is never used.
    vcs = chosen.vcs or chosen.tracker
    commands = _commands(frozenset([chosen.tracker, vcs, chosen.docs]), environ, may_approve=chosen.may_approve)
    with running_loop("outbound") as portal, ExitStack() as ends:
        upstreams: dict[str, Upstream] = {}
        for providers, command in commands:
            tables = [_TABLES[name] for name in providers]
            tables += [_APPROVALS[name] for name in providers if chosen.may_approve and name == vcs]
            needed = tuple(row for table in tables for row in table.values())
            upstream = Upstream(command, needed, portal, redact, is_cut_off)
            ends.callback(upstream.close)
            upstreams.update(dict.fromkeys(providers, upstream))
        yield (
            _tracker(chosen.tracker, upstreams[chosen.tracker], environ),
            _vcs(chosen, upstreams[vcs], environ),
            _docs(chosen.docs, upstreams[chosen.docs], environ),
        )


def _commands(
    names: frozenset[str], environ: Mapping[str, str], *, may_approve: bool
) -> Sequence[tuple[Sequence[str], ServerCommand]]:
    """Return the needed servers, each with its providers."""
    found: list[tuple[Sequence[str], ServerCommand]] = []
    if LOCAL in names:
        found.append(((LOCAL,), local_server(environ)))
    for server in SERVERS.values():
        through = tuple(
            name for name, provider in PROVIDERS.items() if name in names and provider.server == server.name
        )
        if through:
            command = server_command(server, frozenset(through), environ, may_approve=may_approve)
            found.append((through, command))
    return found


def _tracker(name: str, upstream: Upstream, environ: Mapping[str, str]) -> TrackerPort:
    if name == JIRA:
        is_cloud = is_atlassian_cloud(environ[PROVIDERS[JIRA].address])
        return JiraTracker(upstream, waits=waits(environ), is_cloud=is_cloud)
    return LocalTracker(upstream)


def _vcs(chosen: ChosenSystems, upstream: Upstream, environ: Mapping[str, str]) -> VcsPort:
    if chosen.vcs == GITLAB:
        return GitlabVcs(upstream, waits=waits(environ), groups=chosen.groups)
    return LocalVcs(upstream)


def _docs(name: str, upstream: Upstream, environ: Mapping[str, str]) -> DocsPort:
    if name == CONFLUENCE:
        return ConfluenceDocs(upstream, waits=waits(environ))
    return LocalDocs(upstream)
