"""Lock notes: the ref that AOP writes now, so that its stale lock is recognised."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aop.adapters.files.own_folders import own_folder

# Git holds the lock of a ref for milliseconds; without hooks nothing can prolong it.
_LOCK_SECONDS = 5.0
_NOT_IN_A_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|^[-./]|[./]$")


class RefNotes:
    """The note, which is also a lock: one ref is written at a time by all processes."""

    def __init__(self, *, root: Path, common: Path) -> None:
        self._root = root
        self._common = common
        self._turn = threading.Lock()
        self._note: int | None = None

    @contextmanager
    def of(self, ref: str) -> Iterator[Callable[[], None]]:
        """Hold the lock with a note of the ref; yield a function that removes the lock file of a dead git."""
        with self._lock() as note:
            self._drop_stale(note)
            free = [lock for lock in self._locks(ref) if not os.path.exists(lock)]
            os.pwrite(note, ref.encode("utf-8"), 0)
            yield lambda: self._drop_locks(ref)
            # A lock file that git could not remove is left to the next caller.
            if not any(map(os.path.exists, free)):
                os.ftruncate(note, 0)

    def is_locked(self, ref: str) -> bool:
        """Tell whether a lock file is there that a write of the ref would have to wait for."""
        return any(map(os.path.exists, self._locks(ref)))

    def clear(self) -> None:
        """Remove the lock files that a killed git of AOP left; they would block the user's git."""
        with suppress(FileNotFoundError):
            if (self._root / ".aop" / "locks" / "refs").lstat().st_size:
                with self._lock() as note:
                    self._drop_stale(note)

    def descriptor(self) -> int:
        """Return the file of the lock; a git that inherits it still writes and keeps the lock if AOP is killed."""
        if self._note is None or os.fstat(self._note).st_nlink == 0:
            path = own_folder(self._root, ".aop", "locks") / "refs"
            self._note = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            weakref.finalize(self, os.close, self._note)
        return self._note

    @contextmanager
    def _lock(self) -> Iterator[int]:
        # The lock belongs to the process; its threads take turns.
        with self._turn:
            note = self.descriptor()
            fcntl.flock(note, fcntl.LOCK_EX)
            try:
                yield note
            finally:
                fcntl.flock(note, fcntl.LOCK_UN)

    def _drop_stale(self, note: int) -> None:
        stale = os.pread(note, 4096, 0).decode("utf-8", "replace")
        if stale.startswith("refs/") and is_branch_name(stale):
            self._drop_locks(stale)
        os.ftruncate(note, 0)

    def _drop_locks(self, ref: str) -> None:
        for lock in self._locks(ref):
            drop_lock(lock)

    def _locks(self, ref: str) -> tuple[str, str]:
        return f"{self._common}/{ref}.lock", f"{self._common}/HEAD.lock"


def is_branch_name(name: str) -> bool:
    """Tell whether git accepts the name for a branch, and for nothing else."""
    return bool(name) and name not in ("@", "HEAD") and not _NOT_IN_A_BRANCH.search(name)


def drop_lock(lock: str) -> None:
    """Remove the lock file of a dead git; a living one is given time to remove it."""
    until = time.monotonic() + _LOCK_SECONDS
    with suppress(FileNotFoundError):
        while time.time() - os.lstat(lock).st_mtime < _LOCK_SECONDS and time.monotonic() < until:
            time.sleep(0.02)
        os.unlink(lock)
