"""The files that AOP owns in the managed repository: read without following links, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
import uuid
from pathlib import Path

from aop.core.errors import Fault, FileNotFound


class RepositoryFiles:
    """Implements `aop.kernel.ports.Files`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        return self._root

    def read(self, path: str, *, limit: int) -> bytes | None:
        try:
            descriptor = os.open(self._root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileNotFound(f"`{path}` cannot be read: {error.strerror}.", path=path) from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFound(f"`{path}` is not a plain file.", path=path)
            if status.st_size > limit:
                raise FileNotFound(f"`{path}` has {status.st_size} bytes; at most {limit} are read.", path=path)
            return file.read(limit)

    def read_tail(self, path: str, *, limit: int) -> bytes:
        try:
            descriptor = os.open(self._root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return b""
            file.seek(max(0, status.st_size - limit))
            return file.read(limit)

    def fingerprint(self, path: str) -> str | None:
        target = self._root / path
        try:
            status = os.lstat(target)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return f"no plain file: {stat.filemode(status.st_mode)}"
        with open(target, "rb", opener=_open_without_following) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def write(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # The name is told apart from everything else, so that a sweep after a crash removes only its own kind.
        beside = target.with_name(f".aop-{uuid.uuid4().hex}.tmp")
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise Fault(f"`{path}` cannot be written: {error.strerror}.") from error
        _sync_folder(target.parent)

    def set_aside(self, path: str) -> str:
        folder = self._root / ".aop" / "quarantine" / uuid.uuid4().hex[:12]
        folder.mkdir(parents=True)
        target = folder / Path(path).name
        os.rename(self._root / path, target)
        return target.relative_to(self._root).as_posix()


def _open_without_following(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
