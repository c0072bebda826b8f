"""Platforms: records of many repositories in one database, queues and workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from aop.core.ids import OperationId
from aop.kernel.record.port import Snapshot


class RecordStanding(Struct, frozen=True, kw_only=True):
    """One repository of the database: where it is at home, who leads it, and how new its record is."""

    number: int
    name: str
    home: str
    """The machine and the folder that have its worktrees."""
    is_active: bool
    """Whether its record is used; False while it arrives, and after it was moved away."""
    seq: int
    """The number of the newest entry of its journal."""
    writes: int
    """The number of the newest change of its record."""
    leader: str
    """The machine and the process of its supervisor; empty if it has none."""


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker as `aop workers` lists it."""

    id: str
    host: str
    queues: tuple[str, ...]
    places: int
    busy: int
    state: str
    """`live`, `draining` or `gone`."""
    seen_seconds: float
    version: str
    labels: dict[str, str]


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue as `aop platform status` lists it."""

    name: str
    waiting: int
    running: int
    oldest_seconds: float


class Records(Protocol):
    """The records of all repositories in a database."""

    def standings(self) -> tuple[RecordStanding, ...]:
        """Return all repositories, by name."""

    def read(self) -> AbstractContextManager[Callable[[int], Snapshot]]:
        """Look at one consistent state of all; what it yields returns that of a repository, until the next one."""

    def is_running(self, number: int, operation_id: OperationId) -> bool:
        """Tell whether a process of a repository works on an operation."""


class Fleet(Struct, frozen=True, kw_only=True):
    """The queues and the workers."""

    queues: tuple[QueueRow, ...] = ()
    workers: tuple[WorkerRow, ...] = ()
    stranded: int = 0
    """The runs of a shape that no worker serves."""
