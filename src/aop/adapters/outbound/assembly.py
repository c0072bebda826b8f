"""Puts together what an agent works on tickets with: the ports of the providers that the settings name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aop.adapters.outbound.local_ports import TABLE, LocalDocs, LocalTracker, LocalVcs
from aop.adapters.outbound.settings import local_server, ticket_settings
from aop.adapters.outbound.upstream import Upstream, outbound_portal
from aop.adapters.system import SystemClock, new_id
from aop.brains.ports import Brain
from aop.core.redaction import Redactor
from aop.tickets.steps import Desk, Ledger


@contextmanager
def ticket_desk(
    environ: Mapping[str, str], product: str, brain: Brain, ledger: Ledger, redact: Redactor
) -> Iterator[Desk]:
    """Have everything that a ticket is worked on with; the servers of the providers end with it.

    Raises: TicketSettingMissing, TicketProviderUnsupported.
    """
    settings = ticket_settings(environ, product)
    with outbound_portal() as portal:
        server = Upstream(local_server(environ), tuple(TABLE.values()), portal, redact)
        try:
            yield Desk(
                tracker=LocalTracker(server),
                vcs=LocalVcs(server),
                docs=LocalDocs(server),
                brain=brain,
                ledger=ledger,
                clock=SystemClock(),
                redact=redact,
                new_fence=lambda: new_id("data"),
                settings=settings,
            )
        finally:
            server.close()
