"""Server lease: the lock of a repository's server, with its address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aop.adapters.machine.supervisor_lease import LeaseHolder, hold_lease, holder_of
from aop.core.errors import SupervisorRunning
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


def _path(root: Path) -> Path:
    return root / ".aop" / "server.lock"
