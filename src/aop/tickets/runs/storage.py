"""Storage of ticket runs: ports of the ledger and of the finished steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from aop.core.errors import Json
from aop.core.ids import RunId
from aop.core.run import Steps
from aop.tickets.steps import Ledger

ACTIVE, BROKEN, FAILED = "active", "broken", "failed"
"""States of a run, beside the outcomes of the pipelines."""


class StorageFailed(OSError):
    """The ledger could not be read or written."""


class DeliveryRows(Protocol):
    """Webhook deliveries and runs, inside one transaction."""

    def run_of(self, kind: str, name: str) -> RunId | None:
        """Return the run that a delivery led to, by a name of the delivery."""

    def newest_sent(self, kind: str, ticket: str) -> int:
        """Return when the newest delivery of a ticket was sent; 0 if there is none."""

    def count_active(self) -> int:
        """Return the number of runs that have not ended."""

    def open_run(self, kind: str, ticket: str, at: str) -> tuple[RunId, bool]:
        """Return the active run of a ticket, or a new one; and whether it is new."""

    def add(self, kind: str, ticket: str, names: Sequence[str], run_id: RunId, *, sent: int, at: str) -> None:
        """Store a delivery under each of its names."""


class RunLedger(Ledger, Protocol):
    """All ticket runs. Every operation raises StorageFailed or OSError."""

    def open_run(self, kind: str, ticket: str, at: str) -> RunId:
        """Return the active run of a ticket, or a new one."""

    def active(self) -> list[tuple[str, str, RunId]]:
        """Return kind, ticket and id of each run that has not ended, the oldest first."""

    def is_active(self, run_id: RunId) -> bool:
        """Tell whether a run has not ended."""

    def has_active_run(self, kind: str, ticket: str) -> bool:
        """Tell whether a ticket has a run that has not ended."""

    def record_ticket(self, run_id: RunId, ticket: Json) -> None:
        """Store the ticket as it was when the run began, without secrets."""

    def deliveries(self) -> AbstractContextManager[DeliveryRows]:
        """Open a transaction: all that is written inside is kept, or nothing."""


class RunHistory(Protocol):
    """The runs as people look them up, without secrets."""

    def runs(self) -> Sequence[Mapping[str, Any]]:
        """Return all runs, the newest first."""

    def run(self, run_id: str) -> Mapping[str, Any]:
        """Return a run with its steps, in the order in which they were done. Raises: TicketRunNotFound."""

    def dry_runs(self) -> Sequence[Mapping[str, Any]]:
        """Return the last dry run of each kind of work on each ticket, the newest first."""


class StoredRun(Steps, Protocol):
    """A run whose finished steps are stored."""

    def forget(self) -> None:
        """Delete the stored steps."""


class StoredRuns(Protocol):
    """The finished steps of runs that have not ended, secrets included."""

    def lock(self, run_id: RunId) -> AbstractContextManager[StoredRun]:
        """Lock a run for this process; check afterwards that it is still active. Raises: TicketRunBusy, OSError."""

    def ids(self) -> list[RunId]:
        """Return the runs that have stored steps."""

    def remove(self, run_id: RunId) -> None:
        """Delete the stored steps of a run."""
