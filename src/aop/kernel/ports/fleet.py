"""Fleet port: gate runs and turns on other machines, and the refs at the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import CommitId
from aop.kernel.ports.handed_in import Report


class LogPart(Struct, frozen=True, kw_only=True):
    """Bytes that a step or an agent printed on another machine, cleaned there of secrets."""

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
        stopped: Callable[[], str],
    ) -> Mapping[str, Json] | None:
        """Have one worker carry out an order on a commit; return its answer, or None if every worker has gone.

        None also if `stopped` returns a reason before a worker has begun it. The same key and order twice are one run.
        Raises: HubUnavailable, WorkerFailed.
        """

    def forget(self, operation: str) -> None:
        """Remove the runs of an operation whose answer is recorded."""


class LeaderSide(Struct, frozen=True, kw_only=True):
    """The leader's part in a turn on another machine, while that goes on."""

    on_worker: Callable[[str], None]
    """Told of each worker that takes the turn."""
    on_log: Callable[[LogPart], None]
    on_count: Callable[[Json], None]
    """Told of what its meter has counted."""
    answer: Callable[[str, Json], Json]
    """Answers a call of the agent, by the tool and its arguments; who calls is the leader's to know."""
    stopped: Callable[[], str]
    """Returns why the turn must end now; empty if it goes on."""


class TurnRun(Struct, frozen=True, kw_only=True):
    """A turn as it came back."""

    answer: Mapping[str, Json] | None
    """None if every worker has gone, or the turn was stopped before one had begun it."""
    attempts: Mapping[str, Json]
    """The workers that began it, with the usage that each had counted last; null without a meter."""


class TurnWorkers(Protocol):
    """The workers of other machines that take turns of coding agents."""

    def unavailable(self) -> str:
        """Return why no worker can take a turn now; empty if one can."""

    def run(self, order: Mapping[str, Json], commit: CommitId, *, name: str, key: str, leader: LeaderSide) -> TurnRun:
        """Have one worker take a turn on a commit; other turns of this name end, whoever ordered them.

        Raises: HubUnavailable, WorkerFailed.
        """


class HubRefs(Protocol):
    """The refs at the hub through which machines have the work of this repository."""

    def listed(self) -> Mapping[str, CommitId]:
        """Return the refs of trees and merges, and of this repository's gates and turns, with what they name.

        Trees on a base that another record of the database has too are left out. Raises: HubUnavailable.
        """

    def remove(self, refs: Mapping[str, CommitId]) -> Mapping[str, str]:
        """Remove refs that still name these commits; return why each of the others stays. Raises: HubUnavailable."""
