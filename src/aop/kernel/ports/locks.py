"""Locks port: locks that hold between threads and processes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from aop.core.ids import FeatureId, OperationId


class Locks(Protocol):
    """Locks between processes that end with their holder."""

    def operation(self, operation_id: OperationId, *, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold an operation id alone: its earlier holder is dead if it is pending. Raises: OperationInProgress."""

    def is_running(self, operation_id: OperationId) -> bool:
        """Tell whether the operation id is held at this moment."""

    def worktree(self, feature_id: FeatureId, *, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold the feature's worktree alone. Raises: WorktreeBusy."""

    def files(self) -> AbstractContextManager[None]:
        """Hold the files that are written from the record alone."""

    def base_branch(self) -> AbstractContextManager[None]:
        """Hold the base branch against other merges of this machine."""

    def gate_slot(self, limit: int) -> AbstractContextManager[None]:
        """Hold one of `limit` places for gate runs; waits for one."""
