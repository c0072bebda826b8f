"""Objects that have a file of their own, as new ones have: read and written without a process."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aop.core.ids import ObjectId

# What git takes for objects that nobody reads often.
_COMPRESSION = 1
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def object_bytes(kind: str, content: bytes) -> bytes:
    """Return what an object is in git's eyes: its kind, its size, its content."""
    return b"%s %d\0%s" % (kind.encode(), len(content), content)


def id_of(whole: bytes, *, digest_size: int) -> ObjectId:
    """Return the id of an object."""
    name = "sha1" if digest_size == 20 else "sha256"
    return ObjectId(hashlib.new(name, whole, usedforsecurity=False).hexdigest())


class LooseObjects:
    """The files below `objects/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Return kind and content of an object; None if it has no file, or none that can be read."""
        try:
            with open(self._path(oid), "rb") as file:
                whole = zlib.decompress(file.read())
        except (OSError, zlib.error):
            return None
        header, _, content = whole.partition(b"\0")
        return header.decode("ascii").partition(" ")[0], content

    def write(self, objects: Mapping[ObjectId, bytes]) -> None:
        """Write objects so that a file is never there without being whole, not even after a power cut."""
        made = [(self._made(oid, whole), self._path(oid)) for oid, whole in objects.items() if not self._is_fresh(oid)]
        # One after the other when all are there: the first takes most of the work off the others.
        for beside, _ in made:
            _flush(beside)
        for beside, path in made:
            os.rename(beside, path)

    def _path(self, oid: str) -> str:
        return f"{self._folder}/{oid[:2]}/{oid[2:]}"

    def _is_fresh(self, oid: str) -> bool:
        """Tell whether a file is there; one that is looks new again, lest somebody collects it as garbage now."""
        try:
            os.utime(self._path(oid))
        except OSError:
            return False
        return True

    def _made(self, oid: str, whole: bytes) -> str:
        # Git takes a file of this name for one that a dead process left, and collects it after a while.
        beside = f"{self._folder}/{oid[:2]}/tmp_obj_{os.urandom(8).hex()}"
        with suppress(FileExistsError):
            os.mkdir(f"{self._folder}/{oid[:2]}")
        with open(os.open(beside, _NEW_FILE, 0o444), "wb") as file:
            file.write(zlib.compress(whole, _COMPRESSION))
        return beside


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
