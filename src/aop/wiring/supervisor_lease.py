"""Supervisor lease: the lock of the supervisor, and requests to its holder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from aop.adapters.machine.supervisor_lease import LeaseHolder, SupervisorLease, hold_lease, holder_of, last_holder_of
from aop.core.errors import NoSupervisor
from aop.kernel.record.documents.runs import WorkRequest
from aop.wiring.build import App

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 20.0


def lease_holder(root: Path) -> LeaseHolder | None:
    """Return the process that supervises a repository; None if there is none."""
    return holder_of(_lease_path(root))


def last_lease_holder(root: Path) -> LeaseHolder | None:
    """Return the process that supervised a repository last, alive or not; None if there was none."""
    return last_holder_of(_lease_path(root))


def take_lease(root: Path) -> AbstractContextManager[SupervisorLease]:
    """Hold the right to supervise a repository. Raises: SupervisorRunning."""
    return hold_lease(_lease_path(root))


def await_requests_taken(app: App, features: Sequence[str]) -> None:
    """Wait until the supervisor has taken the requests, or for the timeout. Raises: NoSupervisor if it ended before."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while _is_pending(app, features) and time.monotonic() < deadline:
        if lease_holder(app.root) is None:
            raise NoSupervisor(
                "The supervisor ended before it took this request; the request is kept for the next one.",
                hint="Continue with `aop resume`.",
                features=list(features),
            )
        time.sleep(POLL_SECONDS)


def _is_pending(app: App, features: Sequence[str]) -> bool:
    with app.record.read() as view:
        return any(view.get(WorkRequest, name) is not None for name in features)


def _lease_path(root: Path) -> Path:
    return root / ".aop" / "supervisor.lock"
