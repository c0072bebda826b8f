"""Server lease: the lock of a server of pages, with its address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aop.adapters.machine.sockets import LOOPBACK
from aop.adapters.machine.supervisor_lease import LeaseHolder, hold_lease, holder_of
from aop.core.errors import SupervisorRunning
from aop.kernel.gateway.page_sessions import page_host
from aop.kernel.gateway.tokens import Tokens
from aop.wiring.build import App

PRIVATE = ".aop"
LOCK = "server.lock"


@contextmanager
def hold_server_lease(folder: Path, origin: str, since: str) -> Iterator[None]:
    """Tell other commands where the server of a private folder is; of several servers, the first one."""
    with ExitStack() as held:
        with suppress(SupervisorRunning):
            lease = held.enter_context(hold_lease(folder / LOCK))
            lease.sign(LeaseHolder(pid=os.getpid(), since=since, url=origin))
        yield


def server_at(folder: Path) -> LeaseHolder | None:
    """Return the process that serves what a private folder belongs to; None if there is none, or it has just begun."""
    holder = holder_of(folder / LOCK)
    return holder if holder is not None and holder.url else None


def server_of(root: Path) -> LeaseHolder | None:
    """Return the process that serves a repository; None if there is none, or it has just begun."""
    return server_at(root / PRIVATE)


def page_address(app: App) -> str:
    """Return the address of the pages of a repository, which lets nobody in; empty while no server runs."""
    serving = server_of(app.root)
    return "" if serving is None else address_of_pages(app.tokens, serving)


def address_of_pages(tokens: Tokens, serving: LeaseHolder) -> str:
    """Return the address of the pages at a server, under their own host name."""
    return serving.url.replace(LOOPBACK, page_host(tokens.signer))
