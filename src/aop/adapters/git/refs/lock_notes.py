"""Which ref AOP is writing: noted in a file, so that the lock file which a killed git leaves is known to be AOP's."""

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

# Git holds the lock of a ref for milliseconds, and with hooks off nothing can make it longer.
_LOCK_SECONDS = 5.0
_NOT_IN_A_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|^[-./]|[./]$")


class RefNotes:
    """The note, which is a lock too: one ref is written at a time, whichever process writes it."""

    def __init__(self, *, root: Path, common: Path) -> None:
        self._root = root
        self._common = common
        self._turn = threading.Lock()
        self._note: int | None = None

    @contextmanager
    def of(self, ref: str) -> Iterator[Callable[[], None]]:
        """Hold the lock, and have a note of the ref for as long; give what removes the lock file of a git that died."""
        with self._held() as note:
            self._drop_left_behind(note)
            free = [lock for lock in self._locks(ref) if not os.path.exists(lock)]
            os.pwrite(note, ref.encode("utf-8"), 0)
            yield lambda: self._drop_locks(ref)
            # A lock file that git could not remove is left to whoever comes next.
            if not any(map(os.path.exists, free)):
                os.ftruncate(note, 0)

    def clear(self) -> None:
        """Remove the lock files that a killed git of AOP left: they would stop the user's own git."""
        with suppress(FileNotFoundError):
            if (self._root / ".aop" / "locks" / "refs").lstat().st_size:
                with self._held() as note:
                    self._drop_left_behind(note)

    def descriptor(self) -> int:
        """Return the open file that the lock belongs to.

        A git that gets it too keeps the lock beyond the end of an AOP that was killed. It still writes the ref: whoever
        asks where that is must wait for it.
        """
        if self._note is None or os.fstat(self._note).st_nlink == 0:
            path = own_folder(self._root, ".aop", "locks") / "refs"
            self._note = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            weakref.finalize(self, os.close, self._note)
        return self._note

    @contextmanager
    def _held(self) -> Iterator[int]:
        # The lock is the process's; among its threads, turns are taken.
        with self._turn:
            note = self.descriptor()
            fcntl.flock(note, fcntl.LOCK_EX)
            try:
                yield note
            finally:
                fcntl.flock(note, fcntl.LOCK_UN)

    def _drop_left_behind(self, note: int) -> None:
        left_behind = os.pread(note, 4096, 0).decode("utf-8", "replace")
        if left_behind.startswith("refs/") and is_branch_name(left_behind):
            self._drop_locks(left_behind)
        os.ftruncate(note, 0)

    def _drop_locks(self, ref: str) -> None:
        for lock in self._locks(ref):
            drop_lock(lock)

    def _locks(self, ref: str) -> tuple[str, str]:
        return f"{self._common}/{ref}.lock", f"{self._common}/HEAD.lock"


def is_branch_name(name: str) -> bool:
    """Tell whether git takes the name for a branch, and cannot take it for anything else."""
    return bool(name) and name not in ("@", "HEAD") and not _NOT_IN_A_BRANCH.search(name)


def drop_lock(lock: str) -> None:
    """Remove the lock file of a git that is not there any more; one that is has it for milliseconds."""
    until = time.monotonic() + _LOCK_SECONDS
    with suppress(FileNotFoundError):
        while time.time() - os.lstat(lock).st_mtime < _LOCK_SECONDS and time.monotonic() < until:
            time.sleep(0.02)
        os.unlink(lock)
