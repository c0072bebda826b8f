"""Locks between processes: `flock` on small files, which the kernel of the system frees when a holder dies."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aop.core.errors import OperationInProgress, Refusal, WorktreeBusy
from aop.core.ids import FeatureId, OperationId


@contextmanager
def locked_file(path: Path, *, wait_seconds: float | None = None, refusal: Refusal | None = None) -> Iterator[int]:
    """Hold a lock file alone; waits in line without a limit, or for a time and then raises the refusal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path, os.O_CREAT) as descriptor:
        if wait_seconds is None or refusal is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            _lock_within(descriptor, wait_seconds, refusal)
        yield descriptor


@contextmanager
def _opened(path: Path, create: int = 0) -> Iterator[int]:
    # Closed on exec: a child that outlives its parent must not keep the parent's lock.
    descriptor = os.open(path, os.O_RDWR | create | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, wait_seconds: float, refusal: Refusal) -> None:
    deadline, pause = time.monotonic() + wait_seconds, 0.002
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            raise refusal
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
        pause = min(pause * 1.5, 0.1)


def _try_lock(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


class FileLocks:
    """Implements `aop.kernel.ports.Locks` in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def operation(self, operation_id: OperationId, *, wait_seconds: float) -> Iterator[None]:
        path = self._operation_path(operation_id)
        refusal = OperationInProgress(f"The operation `{operation_id}` is still running.", operation_id=operation_id)
        while True:
            with locked_file(path, wait_seconds=wait_seconds, refusal=refusal) as descriptor:
                # The holder before us may have removed the file that we waited on: then nobody else sees our lock.
                if not _is_file_at(path, descriptor):
                    continue
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return

    def is_running(self, operation_id: OperationId) -> bool:
        try:
            with _opened(self._operation_path(operation_id)) as descriptor:
                # Shared: two that look at once do not take each other for the holder.
                return not _try_lock(descriptor, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def _operation_path(self, operation_id: OperationId) -> Path:
        return self._folder / f"op-{hashlib.sha256(operation_id.encode()).hexdigest()[:32]}.lock"

    def sweep_leftovers(self) -> None:
        """Remove the files of operations whose holders died; an id that is never sent again would keep its file."""
        for path in self._folder.glob("op-*.lock"):
            with suppress(FileNotFoundError), _opened(path) as descriptor:
                if _try_lock(descriptor) and _is_file_at(path, descriptor):
                    path.unlink()

    @contextmanager
    def worktree(self, feature_id: FeatureId, *, wait_seconds: float) -> Iterator[None]:
        refusal = WorktreeBusy(f"The worktree of `{feature_id}` is in use by another call.", feature_id=feature_id)
        with locked_file(self._folder / f"worktree-{feature_id}.lock", wait_seconds=wait_seconds, refusal=refusal):
            yield

    @contextmanager
    def files(self) -> Iterator[None]:
        with locked_file(self._folder / "files.lock"):
            yield

    @contextmanager
    def base_branch(self) -> Iterator[None]:
        with locked_file(self._folder / "base-branch.lock"):
            yield

    @contextmanager
    def gate_slot(self, limit: int) -> Iterator[None]:
        """Take any free slot; when all are taken, stand in line for them one caller at a time."""
        with _first_free([self._folder / f"gate-slot-{number}.lock" for number in range(limit)], self._folder):
            yield


@contextmanager
def _first_free(paths: list[Path], folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptors = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600) for path in paths]
    try:
        with locked_file(folder / "gate-line.lock"):
            while not any(_try_lock(descriptor) for descriptor in descriptors):
                time.sleep(0.02)
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
