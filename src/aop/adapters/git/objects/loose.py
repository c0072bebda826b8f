"""Loose objects: git objects in separate files, read and written without git."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from pathlib import Path

from aop.adapters.files.own_folders import write_whole
from aop.adapters.git.objects.write_ahead_log import ObjectLog
from aop.core.ids import ObjectId

# The level that git takes for objects that are rarely read.
_COMPRESSION = 1
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The time of a folder may lie a little before the clock.
_CLOCK_STEP_NS = 1_000_000_000
# Linux takes the times of files from its tick, of 10 ms or less; some file systems know only every other second.
_TICK_NS = 20_000_000
_COARSE_STEP_NS = 2_000_000_000


def object_bytes(kind: str, content: bytes) -> bytes:
    """Return an object as git stores it: kind, size, content."""
    return b"%s %d\0%s" % (kind.encode(), len(content), content)


def id_of(whole: bytes, *, digest_size: int) -> ObjectId:
    """Return the id of an object."""
    # A command that only reads needs no ids of new objects.
    import hashlib

    name = "sha1" if digest_size == 20 else "sha256"
    return ObjectId(hashlib.new(name, whole, usedforsecurity=False).hexdigest())


class LooseObjects:
    """The files below `objects/`; without a log they need not survive a power cut."""

    def __init__(self, folder: Path, log: ObjectLog | None = None) -> None:
        self._folder = str(folder)
        self._log = log
        self._opened = time.time_ns() - _CLOCK_STEP_NS
        self._flushed_at: dict[str, int] = {}

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Return kind and content of an object; None if it has no readable file."""
        try:
            with open(self._path(oid), "rb") as file:
                whole = zlib.decompress(file.read())
        except (OSError, zlib.error):
            return None
        header, _, content = whole.partition(b"\0")
        return header.decode("ascii").partition(" ")[0], content

    def write(self, objects: Mapping[ObjectId, bytes]) -> AbstractSet[ObjectId]:
        """Write objects durably; return those that were new. Whether the others are whole was not checked."""
        new = {oid: whole for oid, whole in objects.items() if not self._is_fresh(oid)}
        files: dict[str, bytes] = {oid: zlib.compress(whole, _COMPRESSION) for oid, whole in new.items()}
        if self._log is None:
            self._place(files, flushed=False)
        elif files:
            with self._log.hold(files, self._flush) as is_logged:
                self._place(files, flushed=not is_logged)
        return new.keys()

    def write_for_now(self, objects: Mapping[ObjectId, bytes]) -> None:
        """Write objects that nothing refers to, without a flush; one that a power cut damaged is written again."""
        new = {oid: whole for oid, whole in objects.items() if not self._is_whole(oid)}
        self._place({oid: zlib.compress(whole, _COMPRESSION) for oid, whole in new.items()}, flushed=False)

    def keep(self, oids: Iterable[str]) -> bool:
        """Make objects durable that git wrote without a flush; False: one was empty, and git must write it again."""
        files: dict[str, bytes] = {}
        for oid in oids:
            content = self._content(oid)
            if content is not None and _is_empty(content):
                return not self.remove_empty((oid,))
            if content is not None:
                files[oid] = content
        if files and self._log is not None:
            with self._log.hold(files, self._flush) as is_logged:
                if not is_logged:
                    self._flush(files)
        return True

    def remove_empty(self, oids: Iterable[str]) -> bool:
        """Remove files that a power cut emptied, and that git takes for objects; tell whether there were any."""
        empty = [oid for oid in oids if (content := self._content(oid)) is not None and _is_empty(content)]
        for oid in empty:
            with suppress(FileNotFoundError):
                os.unlink(self._path(oid))
        return bool(empty)

    def has(self, oid: str) -> bool:
        """Tell whether an object has a file."""
        return os.path.exists(self._path(oid))

    def restore(self) -> None:
        """Write again the objects whose files a power cut destroyed."""
        lost = self._log.lost() if self._log else {}
        if lost:
            damaged = {oid: content for oid, content in lost.items() if not self._is_whole(oid)}
            self._place(damaged, flushed=True)
            self.flush()

    def flush(self) -> None:
        """Flush the file of every logged object, for programs that read them without AOP."""
        if self._log is not None:
            self._log.empty(self._flush)

    def flush_names(self) -> None:
        """Flush the folders of objects that git wrote: git flushes only the files."""
        now = time.time_ns()
        with os.scandir(self._folder) as found:
            folders = [self._folder, *(entry.path for entry in found if entry.is_dir(follow_symlinks=False))]
        times = {folder: os.stat(folder).st_mtime_ns for folder in folders}
        changed = {
            folder: at for folder, at in times.items() if at >= self._opened and at != self._flushed_at.get(folder)
        }
        _flush(changed)
        # A folder that changes again within one step of its clock keeps its time.
        self._flushed_at |= {folder: at for folder, at in changed.items() if _is_settled(at, now)}

    def _place(self, files: Mapping[str, bytes], *, flushed: bool) -> None:
        made = [(self._write_beside(oid, content), self._path(oid)) for oid, content in files.items()]
        if flushed:
            _flush([beside for beside, _ in made])
        for beside, path in made:
            os.rename(beside, path)
        if flushed:
            _flush(self._folders(files))

    def _flush(self, oids: Iterable[str]) -> None:
        named = list(oids)
        _flush([*map(self._path, named), *self._folders(named)])

    def _folders(self, oids: Iterable[str]) -> list[str]:
        """Return the folders that must be flushed for the names of new objects."""
        return [*sorted({os.path.dirname(self._path(oid)) for oid in oids}), self._folder]

    def _content(self, oid: str) -> bytes | None:
        try:
            return Path(self._path(oid)).read_bytes()
        except FileNotFoundError:
            return None

    def _path(self, oid: str) -> str:
        return f"{self._folder}/{oid[:2]}/{oid[2:]}"

    def _is_whole(self, oid: str) -> bool:
        found = self.read(oid)
        return found is not None and id_of(object_bytes(*found), digest_size=len(oid) // 2) == oid

    def _is_fresh(self, oid: str) -> bool:
        """Tell whether a file exists, and give it a new time, so that it is not collected as garbage."""
        try:
            os.utime(self._path(oid))
        except OSError:
            return False
        return True

    def _write_beside(self, oid: str, content: bytes) -> str:
        # Git removes files of this name after a while, as left by a dead process.
        beside = f"{self._folder}/{oid[:2]}/tmp_obj_{os.urandom(8).hex()}"
        try:
            descriptor = os.open(beside, _NEW_FILE, 0o444)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(f"{self._folder}/{oid[:2]}")
            descriptor = os.open(beside, _NEW_FILE, 0o444)
        try:
            write_whole(descriptor, content)
        finally:
            os.close(descriptor)
        return beside


def _is_empty(content: bytes) -> bool:
    """Tell whether a file has no content, or only the zeros that some file systems leave."""
    return not content.strip(b"\0")


def _is_settled(at: int, now: int) -> bool:
    """Tell whether a folder that changes from now on gets another time."""
    return at + (_TICK_NS if at % 1_000_000_000 else _COARSE_STEP_NS) < now


def _flush(paths: Iterable[str]) -> None:
    with ExitStack() as opened:
        descriptors: list[int] = []
        for path in paths:
            # Git has flushed what it packed meanwhile.
            with suppress(FileNotFoundError):
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                opened.callback(os.close, descriptors[-1])
        # Start the write of all files first; the first wait then covers most of the work.
        for descriptor in descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in descriptors:
            os.fsync(descriptor)
