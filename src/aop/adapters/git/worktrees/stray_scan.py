"""Scan of a worktree: do its files match its index, and what else is there? Git judges if in doubt."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from aop.adapters.git.index.format import describes, entry_offsets, is_submodule, object_at
from aop.adapters.git.objects.loose import id_of, object_bytes

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def other_files(folder: Path, index: bytes, *, indexed_ns: int, digest_size: int) -> set[str] | None:
    """Return the paths in a folder that its index lacks, folders with a slash; None if a file may differ from it."""
    scan = _Scan(folder, index, indexed_ns=indexed_ns, digest_size=digest_size)
    try:
        while scan.unopened and scan.is_clean:
            scan.open(scan.unopened.pop())
    except OSError:
        # A folder may not be opened, or a file vanished meanwhile.
        return None
    return scan.others - {".git", ".git/"} if scan.is_clean and not scan.entries else None


class _Scan:
    def __init__(self, folder: Path, index: bytes, *, indexed_ns: int, digest_size: int) -> None:
        self._folder = folder
        self._index = index
        self._indexed_ns = indexed_ns
        self._digest_size = digest_size
        self.entries = dict(entry_offsets(index, digest_size=digest_size))
        self._folders = set(folders_of(self.entries))
        self.unopened = [""]
        self.others: set[str] = set()
        self.is_clean = True

    def open(self, above: str) -> None:
        """Compare the contents of one folder."""
        descriptor = os.open(f"{self._folder}/{above}", _FOLDER)
        try:
            with os.scandir(descriptor) as found:
                for entry in found:
                    path = above + entry.name
                    at = self.entries.pop(path, None)
                    if at is not None:
                        self.is_clean = self.is_clean and self._is_same(path, at, entry.stat(follow_symlinks=False))
                    elif not entry.is_dir(follow_symlinks=False):
                        self.others.add(path)
                    elif path in self._folders:
                        self.unopened.append(f"{path}/")
                    else:
                        self.others.add(f"{path}/")
        finally:
            os.close(descriptor)

    def _is_same(self, path: str, at: int, found: os.stat_result) -> bool:
        if stat.S_ISDIR(found.st_mode):
            return is_submodule(self._index, at)
        if not describes(self._index, at, found):
            return False
        # A file as young as the index may have changed within the same tick of the clock.
        return found.st_mtime_ns < self._indexed_ns or self._holds(self._folder / path, at, found)

    def _holds(self, path: Path, at: int, found: os.stat_result) -> bool:
        content = os.fsencode(os.readlink(path)) if stat.S_ISLNK(found.st_mode) else path.read_bytes()
        oid = object_at(self._index, at, digest_size=self._digest_size)
        return id_of(object_bytes("blob", content), digest_size=self._digest_size) == oid


def folders_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the folders above paths, some of them repeatedly."""
    last = ""
    for path in paths:
        folder = path.rpartition("/")[0]
        # Most files lie in the folder of the file before them.
        if folder != last:
            last = folder
            while folder:
                yield folder
                folder = folder.rpartition("/")[0]
