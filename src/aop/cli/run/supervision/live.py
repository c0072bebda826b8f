"""The supervisor that is running in another process, for the commands that want something of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from aop.adapters.machine.supervisor_lease import LeaseHolder, holder_of
from aop.cli.run.supervision.supervise import LEASE
from aop.core.errors import NoSupervisor
from aop.kernel.record.documents.runs import WorkRequest
from aop.wiring.build import App

LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 20.0


def running_supervisor(app: App) -> LeaseHolder | None:
    """Return who supervises this repository now."""
    return holder_of(app.root / LEASE)


def await_taken(app: App, features: Sequence[str]) -> None:
    """Wait until the supervisor has taken what was wished for, or is known to be busy with it.

    Raises: NoSupervisor if it ended before.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _is_wished(app, features) and time.monotonic() < deadline:
        if running_supervisor(app) is None:
            raise NoSupervisor(
                "The supervisor ended before it took this; what is wanted is kept for the next one.",
                hint="Go on with `aop resume`.",
                features=list(features),
            )
        time.sleep(LOOK_SECONDS)


def _is_wished(app: App, features: Sequence[str]) -> bool:
    with app.record.read() as view:
        return any(view.get(WorkRequest, name) is not None for name in features)
