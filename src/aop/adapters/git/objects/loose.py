"""Objects that have a file of their own, as new ones have: read and written without a process."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from pathlib import Path

from aop.adapters.git.objects.write_ahead_log import ObjectLog
from aop.core.ids import ObjectId

# What git takes for objects that nobody reads often.
_COMPRESSION = 1
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder may say that it changed a little before the clock did.
_CLOCK_STEP_SECONDS = 1.0


def object_bytes(kind: str, content: bytes) -> bytes:
    """Return what an object is in git's eyes: its kind, its size, its content."""
    return b"%s %d\0%s" % (kind.encode(), len(content), content)


def id_of(whole: bytes, *, digest_size: int) -> ObjectId:
    """Return the id of an object."""
    # Whoever only reads objects needs no ids of new ones.
    import hashlib

    name = "sha1" if digest_size == 20 else "sha256"
    return ObjectId(hashlib.new(name, whole, usedforsecurity=False).hexdigest())


class LooseObjects:
    """The files below `objects/`; without a log, those of a folder that nobody needs after a power cut."""

    def __init__(self, folder: Path, log: ObjectLog | None = None) -> None:
        self._folder = str(folder)
        self._log = log
        self._names_flushed = time.time() - _CLOCK_STEP_SECONDS

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Return kind and content of an object; None if it has no file, or none that can be read."""
        try:
            with open(self._path(oid), "rb") as file:
                whole = zlib.decompress(file.read())
        except (OSError, zlib.error):
            return None
        header, _, content = whole.partition(b"\0")
        return header.decode("ascii").partition(" ")[0], content

    def write(self, objects: Mapping[ObjectId, bytes]) -> AbstractSet[ObjectId]:
        """Write objects so that each is there as a whole when this returns, whatever happens then.

        Returns those that were not there: of the others, nobody has seen whether they are whole.
        """
        new = {oid: whole for oid, whole in objects.items() if not self._is_fresh(oid)}
        files: dict[str, bytes] = {oid: zlib.compress(whole, _COMPRESSION) for oid, whole in new.items()}
        if self._log is None:
            self._place(files, flushed=False)
        elif files:
            with self._log.holding(files, self._flush) as is_logged:
                self._place(files, flushed=not is_logged)
        return new.keys()

    def restore(self) -> None:
        """Write the objects again whose files a power cut has taken."""
        lost = self._log.lost() if self._log else {}
        if lost:
            damaged = {oid: content for oid, content in lost.items() if not self._is_whole(oid)}
            self._place(damaged, flushed=True)
            self.flush()

    def flush(self) -> None:
        """Have the file of every object on the disk, for whoever reads them without AOP after a power cut."""
        if self._log is not None:
            self._log.empty(self._flush)

    def flush_names(self) -> None:
        """Have the names on the disk that git gave to objects: it flushes files, and not their folders."""
        since, self._names_flushed = self._names_flushed, time.time() - _CLOCK_STEP_SECONDS
        with os.scandir(self._folder) as found:
            folders = [self._folder, *(entry.path for entry in found if entry.is_dir(follow_symlinks=False))]
        _flush(folder for folder in folders if os.stat(folder).st_mtime >= since)

    def _place(self, files: Mapping[str, bytes], *, flushed: bool) -> None:
        made = [(self._made(oid, content), self._path(oid)) for oid, content in files.items()]
        if flushed:
            _flush([beside for beside, _ in made])
        for beside, path in made:
            os.rename(beside, path)

    def _flush(self, oids: Iterable[str]) -> None:
        paths = [self._path(oid) for oid in oids]
        _flush([*paths, *sorted({os.path.dirname(path) for path in paths})])

    def _path(self, oid: str) -> str:
        return f"{self._folder}/{oid[:2]}/{oid[2:]}"

    def _is_whole(self, oid: str) -> bool:
        found = self.read(oid)
        return found is not None and id_of(object_bytes(*found), digest_size=len(oid) // 2) == oid

    def _is_fresh(self, oid: str) -> bool:
        """Tell whether a file is there; one that is looks new again, lest somebody collects it as garbage now."""
        try:
            os.utime(self._path(oid))
        except OSError:
            return False
        return True

    def _made(self, oid: str, content: bytes) -> str:
        # Git takes a file of this name for one that a dead process left, and collects it after a while.
        beside = f"{self._folder}/{oid[:2]}/tmp_obj_{os.urandom(8).hex()}"
        try:
            descriptor = os.open(beside, _NEW_FILE, 0o444)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(f"{self._folder}/{oid[:2]}")
            descriptor = os.open(beside, _NEW_FILE, 0o444)
        with open(descriptor, "wb") as file:
            file.write(content)
        return beside


def _flush(paths: Iterable[str]) -> None:
    with ExitStack() as opened:
        descriptors: list[int] = []
        for path in paths:
            # What git has packed in the meantime, it has flushed.
            with suppress(FileNotFoundError):
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                opened.callback(os.close, descriptors[-1])
        # When all are on their way to the disk, the first that is waited for takes most of the work off the others.
        for descriptor in descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in descriptors:
            os.fsync(descriptor)
