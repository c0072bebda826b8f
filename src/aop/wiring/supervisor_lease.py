"""Supervisor lease: the lock of the supervisor, and requests to its holder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import cast

from aop.adapters.machine.supervisor_lease import FileLeases, LeaseHolder, SupervisorLease, SupervisorLeases
from aop.adapters.storage.record.choice import place_of
from aop.core.errors import NoSupervisor, SupervisorRunning
from aop.kernel.record.documents.runs import WorkRequest
from aop.kernel.record.port import Record
from aop.wiring.build import App

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 20.0
STANDBY_SECONDS = 0.3


def leases_of(root: Path, record: Record) -> SupervisorLeases:
    """Return the lease of a repository: a file, or a row of the database that has the record."""
    shared = getattr(record, "leases", None)
    return file_leases(root) if shared is None else cast("SupervisorLeases", shared())


def file_leases(root: Path) -> FileLeases:
    """Return the lease of a repository whose record is a file."""
    return FileLeases(root / ".aop" / "supervisor.lock")


def lease_holder(root: Path, record: Record) -> LeaseHolder | None:
    """Return the process that supervises a repository; None if there is none."""
    return leases_of(root, record).holder()


def stop_supervisor(leases: SupervisorLeases) -> LeaseHolder | None:
    """Ask the supervisor to end, and wait until it has; return it, or None. Raises: SupervisorRunning."""
    holder = leases.holder()
    if holder is None or not holder.pid:
        return None
    # Also for a process here: a worker that leads would otherwise begin again.
    leases.ask_to_stop()
    if not holder.host:
        with suppress(ProcessLookupError):
            os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while leases.holder() is not None:
        if time.monotonic() > deadline:
            raise SupervisorRunning(f"The supervisor ({holder.name}) did not end in time.", pid=holder.pid)
        time.sleep(POLL_SECONDS)
    return holder


@contextmanager
def take_lease(leases: SupervisorLeases, *, stands_by: bool = False) -> Iterator[SupervisorLease]:
    """Hold the right to supervise; who stands by waits until nobody else does. Raises: SupervisorRunning."""
    with ExitStack() as held:
        yield _taken(leases, held, stands_by=stands_by)


def _taken(leases: SupervisorLeases, held: ExitStack, *, stands_by: bool) -> SupervisorLease:
    while True:
        try:
            return held.enter_context(leases.take())
        except SupervisorRunning:
            if not stands_by:
                raise
        time.sleep(STANDBY_SECONDS)


def is_led_by_workers(app: App) -> bool:
    """Tell whether a worker of the platform would lead this repository, so that a command can leave it to one."""
    place = place_of(app.root, app.settings.environ)
    if place is None or app.hub is None or place.worker:
        return False
    # A record on SQLite pays nothing for this.
    from aop.adapters.fleet.connections import connect
    from aop.adapters.fleet.leads import directory

    with connect(place.url) as connection:
        return directory.is_led_by_workers(connection, place.name)


def leave_to_worker(app: App, lease: SupervisorLease) -> None:
    """Let a worker of the platform lead this repository."""
    from aop.adapters.fleet.connections import connect, platform_address
    from aop.adapters.fleet.leads.directory import tell_leads

    lease.leave_to_worker()
    with connect(platform_address(app.settings.environ)) as connection:
        tell_leads(connection)


def await_requests_taken(app: App, features: Sequence[str]) -> None:
    """Wait until the supervisor has taken the requests, or for the timeout. Raises: NoSupervisor if it ended before."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while _is_pending(app, features) and time.monotonic() < deadline:
        if lease_holder(app.root, app.record) is None:
            raise NoSupervisor(
                "The supervisor ended before it took this request; the request is kept for the next one.",
                hint="Continue with `aop resume`.",
                features=list(features),
            )
        time.sleep(POLL_SECONDS)


def _is_pending(app: App, features: Sequence[str]) -> bool:
    with app.record.read() as view:
        return any(view.get(WorkRequest, name) is not None for name in features)
