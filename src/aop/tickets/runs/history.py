"""History of ticket runs that are in two ledgers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aop.core.errors import TicketRunNotFound
from aop.tickets.runs.storage import RunHistory


class JoinedHistory:
    """Implements `aop.tickets.runs.storage.RunHistory`: the runs of this repository, and those of the platform."""

    def __init__(self, own: RunHistory, platform: RunHistory) -> None:
        self._own = own
        self._platform = platform

    def runs(self) -> Sequence[Mapping[str, Any]]:
        """Return the runs of both, the newest first."""
        return sorted([*self._platform.runs(), *self._own.runs()], key=lambda run: str(run["began"]), reverse=True)

    def run(self, run_id: str) -> Mapping[str, Any]:
        """Return a run of either. Raises: TicketRunNotFound."""
        try:
            return self._own.run(run_id)
        except TicketRunNotFound:
            return self._platform.run(run_id)

    def dry_runs(self) -> Sequence[Mapping[str, Any]]:
        """Return the dry runs of this repository: they are kept where they were made."""
        return self._own.dry_runs()
