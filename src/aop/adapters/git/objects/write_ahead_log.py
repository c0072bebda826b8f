"""Write-ahead log of new objects: one file, flushed once for each change.

A new file is slow to flush, so objects are first appended here and flushed together; their own files are not flushed
until the log is full and begins anew. After a power cut those files may be empty, and are written again from the log.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.files.own_folders import flush_folder, own_folder
from aop.core.digests import sha256

CAPACITY = 1 << 20
# Larger changes are flushed file by file: they would push all others out of the log.
LARGEST = CAPACITY // 4

_NAME = "objects.log"
_HEADER = struct.Struct("!4s16sI32s")
_MAGIC = b"AOL1"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class _Batch(Struct, frozen=True, kw_only=True, array_like=True):
    boot: str
    files: dict[str, bytes]


class ObjectLog:
    """Batches in a row; those with the generation of the first one are valid."""

    def __init__(self, root: Path, boot: Callable[[], str]) -> None:
        self._root = root
        self._boot = cache(boot)
        self._generation = b""
        self._end = 0
        self._logged: set[str] = set()

    @contextmanager
    def hold(self, files: Mapping[str, bytes], flush: Callable[[Iterable[str]], object]) -> Iterator[bool]:
        """Log files durably, and hold the log while they are written; yield False if they are too large for it."""
        batch = msgspec.msgpack.encode(_Batch(boot=self._boot(), files=dict(files)))
        if _HEADER.size + len(batch) > LARGEST:
            yield False
            return
        with self._locked() as log:
            self._catch_up(log)
            if self._end + _HEADER.size + len(batch) > CAPACITY:
                flush(sorted(self._logged))
                self._begin(b"")
            self._append(log, batch)
            self._logged.update(files)
            yield True

    def lost(self) -> dict[str, bytes]:
        """Return what was logged before the machine restarted."""
        if not self._exists():
            return {}
        with self._locked() as log:
            batches = self._batches(log)
            # The first process after a restart looks here before it writes.
            first = next(batches, None)
            if first is None or (first.boot and first.boot == self._boot()):
                return {}
            return {name: content for batch in (first, *batches) for name, content in batch.files.items()}

    def empty(self, flush: Callable[[Iterable[str]], object]) -> None:
        """Flush every logged file, and empty the log."""
        if not self._exists():
            return
        with self._locked() as log:
            self._catch_up(log)
            flush(sorted(self._logged))
            os.pwrite(log, bytes(_HEADER.size), 0)
            os.fdatasync(log)
            self._begin(b"")

    def _exists(self) -> bool:
        return os.path.lexists(self._root / ".aop" / _NAME)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        log = os.open(own_folder(self._root, ".aop") / _NAME, _FLAGS, 0o600)
        try:
            fcntl.flock(log, fcntl.LOCK_EX)
            if os.fstat(log).st_size < CAPACITY:
                # With its full size from the start, a write changes only bytes, and a flush is fast.
                os.pwrite(log, bytes(CAPACITY), 0)
                os.fsync(log)
                flush_folder(self._root / ".aop")
            yield log
        finally:
            os.close(log)

    def _begin(self, generation: bytes) -> None:
        self._generation, self._end = generation, 0
        self._logged.clear()

    def _append(self, log: int, batch: bytes) -> None:
        if not self._generation:
            self._begin(os.urandom(16))
        header = _HEADER.pack(_MAGIC, self._generation, len(batch), sha256(self._generation + batch))
        os.pwrite(log, header + batch, self._end)
        os.fdatasync(log)
        self._end += _HEADER.size + len(batch)

    def _catch_up(self, log: int) -> None:
        """Read what other processes have appended."""
        for batch in self._batches(log):
            self._logged.update(batch.files)
        if not self._end:
            self._begin(b"")

    def _batches(self, log: int) -> Iterator[_Batch]:
        """Yield the batches that this process has not seen."""
        generation = os.pread(log, _HEADER.size, 0)[4:20]
        if generation != self._generation:
            self._begin(generation)
        while len(head := os.pread(log, _HEADER.size, self._end)) == _HEADER.size:
            magic, generation, size, digest = _HEADER.unpack(head)
            if magic != _MAGIC or generation != self._generation or size > LARGEST:
                return
            batch = os.pread(log, size, self._end + _HEADER.size)
            # A batch that was cut short is the last one, and is overwritten.
            if sha256(generation + batch) != digest:
                return
            self._end += _HEADER.size + size
            yield msgspec.msgpack.decode(batch, type=_Batch)
