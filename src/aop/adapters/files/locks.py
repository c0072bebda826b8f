"""Locks between processes: `flock` on small files, freed when the holder dies."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aop.core.digests import sha256
from aop.core.errors import OperationInProgress, Refusal, WorktreeBusy
from aop.core.ids import FeatureId, OperationId

OPERATIONS = "operations.lock"
"""One file for all operations, and a byte of it for each: an id that is never sent again leaves nothing behind."""


@contextmanager
def locked_file(path: Path, *, wait_seconds: float | None = None, refusal: Refusal | None = None) -> Iterator[int]:
    """Hold a lock file; wait without a limit, or raise the refusal after `wait_seconds`."""
    with _open_lock_file(path) as descriptor:
        if wait_seconds is None or refusal is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            lock_within(lambda: _try_lock(descriptor), wait_seconds, refusal)
        yield descriptor


@contextmanager
def _open_lock_file(path: Path) -> Iterator[int]:
    # Closed on exec: a child that outlives its parent must not keep the parent's lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock_within(attempt: Callable[[], bool], wait_seconds: float, refusal: Refusal) -> None:
    """Try until it succeeds, after growing pauses; raise the refusal after `wait_seconds`."""
    deadline, pause = time.monotonic() + wait_seconds, 0.002
    while not attempt():
        if time.monotonic() >= deadline:
            raise refusal
        # Jitter, so that callers that wait for one lock do not try at the same moment. Importing `random` would cost
        # every command more than this costs those that wait.
        time.sleep(pause * (1 - os.urandom(1)[0] / 512))
        pause = min(pause * 1.5, 0.1)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_byte(descriptor: int, operation_id: OperationId, kind: int) -> bool:
    byte = int.from_bytes(sha256(operation_id.encode())[:7], "big")
    # Like `flock`, these locks belong to the open file and not to the process, so they also exclude threads.
    wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True


def operation_in_progress(operation_id: OperationId) -> OperationInProgress:
    """Return the refusal of an operation whose lock is held."""
    return OperationInProgress(f"The operation `{operation_id}` is still running.", operation_id=operation_id)


class FileLocks:
    """Implements `aop.kernel.ports.locks.Locks` in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def operation(self, operation_id: OperationId, *, wait_seconds: float) -> Iterator[None]:
        refusal = operation_in_progress(operation_id)
        with _open_lock_file(self._folder / OPERATIONS) as descriptor:
            lock_within(lambda: _try_byte(descriptor, operation_id, fcntl.F_WRLCK), wait_seconds, refusal)
            yield

    def is_running(self, operation_id: OperationId) -> bool:
        with _open_lock_file(self._folder / OPERATIONS) as descriptor:
            # Shared, so that two callers that look at once do not take each other for the holder.
            return not _try_byte(descriptor, operation_id, fcntl.F_RDLCK)

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
        """Take any free slot; when all are taken, wait in line."""
        paths = [self._folder / f"gate-slot-{number}.lock" for number in range(limit)]
        with ExitStack() as opened:
            slots = [opened.enter_context(_open_lock_file(path)) for path in paths]
            with locked_file(self._folder / "gate-line.lock"):
                while not any(map(_try_lock, slots)):
                    time.sleep(0.02)
            yield
