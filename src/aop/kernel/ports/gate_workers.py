"""Gate workers port: gate runs on other machines, sent and received as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import CommitId
from aop.kernel.ports.handed_in import Report


class LogPart(Struct, frozen=True, kw_only=True):
    """Bytes that a step printed on another machine, cleaned there of secrets."""

    path: str
    """The log, from the root of the repository."""
    offset: int
    content: bytes


class GateWorkers(Protocol):
    """The workers of other machines that run gates."""

    def unavailable(self) -> str:
        """Return why no worker can take a gate run now; empty if one can."""

    def run(
        self,
        order: Mapping[str, Json],
        commit: CommitId,
        *,
        key: str,
        report: Report,
        on_log: Callable[[LogPart], None],
    ) -> Mapping[str, Json] | None:
        """Have one worker carry out an order on a commit; return its answer, or None if every worker has gone.

        The same key and order twice are one run. Raises: HubUnavailable, WorkerFailed.
        """

    def forget(self, operation: str) -> None:
        """Remove the runs of an operation whose answer is recorded."""
