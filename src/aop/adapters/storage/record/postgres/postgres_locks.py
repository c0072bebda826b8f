"""Locks between machines: those of the database, besides the machine's own."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.locks import FileLocks, operation_in_progress
from aop.adapters.storage.record.postgres.lock_session import LockSession
from aop.core.ids import OperationId

BASE_BRANCH = "base branch"


class PostgresLocks(FileLocks):
    """Implements `aop.kernel.ports.locks.Locks`: operations and the base branch are held in the database too.

    Worktrees, files and places for gates belong to one machine. The lock of the machine is taken first: it excludes the
    threads of this process, which share one session.
    """

    def __init__(self, folder: Path, session: LockSession) -> None:
        super().__init__(folder)
        self._session = session

    @contextmanager
    def operation(self, operation_id: OperationId, *, wait_seconds: float) -> Iterator[None]:
        until, refusal = time.monotonic() + wait_seconds, operation_in_progress(operation_id)
        with super().operation(operation_id, wait_seconds=wait_seconds):
            left = max(0.0, until - time.monotonic())
            with self._session.held(_name_of(operation_id), wait_seconds=left, refusal=refusal):
                yield

    def is_running(self, operation_id: OperationId) -> bool:
        return super().is_running(operation_id) or self._session.is_held(_name_of(operation_id))

    @contextmanager
    def base_branch(self) -> Iterator[None]:
        never = operation_in_progress(OperationId(BASE_BRANCH))
        with super().base_branch(), self._session.held(BASE_BRANCH, wait_seconds=math.inf, refusal=never):
            yield


def _name_of(operation_id: OperationId) -> str:
    return f"operation {operation_id}"
