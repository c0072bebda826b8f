"""Server lease: the lock of a repository's server, with its address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aop.adapters.machine.sockets import LOOPBACK
from aop.adapters.machine.supervisor_lease import LeaseHolder, hold_lease, holder_of
from aop.core.errors import SupervisorRunning
from aop.kernel.gateway.page_sessions import page_host
from aop.wiring.build import App


@contextmanager
def hold_server_lease(app: App, origin: str) -> Iterator[None]:
    """Tell other commands where this repository is served; of several servers, the first one."""
    with ExitStack() as held:
        with suppress(SupervisorRunning):
            lease = held.enter_context(hold_lease(_path(app.root)))
            lease.sign(LeaseHolder(pid=os.getpid(), since=app.gateway.kernel.now(), url=origin))
        yield


def server_of(root: Path) -> LeaseHolder | None:
    """Return the process that serves a repository; None if there is none, or it has just begun."""
    holder = holder_of(_path(root))
    return holder if holder is not None and holder.url else None


def page_address(app: App) -> str:
    """Return the address of the pages of a repository, which lets nobody in; empty while no server runs."""
    serving = server_of(app.root)
    return "" if serving is None else address_of_pages(app, serving)


def address_of_pages(app: App, serving: LeaseHolder) -> str:
    """Return the address of the pages at a server, under their own host name."""
    return serving.url.replace(LOOPBACK, page_host(app.tokens.signer))


def _path(root: Path) -> Path:
    return root / ".aop" / "server.lock"
