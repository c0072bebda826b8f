"""Repository files: read without links, and written whole or not at all."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice, takewhile
from pathlib import Path

from aop.adapters.files.exchange import put_in_place
from aop.adapters.files.own_folders import open_parent, write_whole
from aop.core.errors import Fault, FileNotFound
from aop.core.paths import globs
from aop.kernel.ports.files import FilePart

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A larger buffer would be allocated anew each time, which costs more than reading a small file.
_PIECE = 1 << 16
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RepositoryFiles:
    """Implements `aop.kernel.ports.files.Files`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # The repository itself may be reached through a link; nothing in it is.
        self._top = os.path.realpath(root)

    @property
    def root(self) -> Path:
        return self._root

    def read(self, path: str, *, limit: int) -> bytes | None:
        above, _, name = path.rpartition("/")
        return self.read_each(above, (name,), limit=limit)[0]

    def read_each(self, above: str, names: Sequence[str], *, limit: int) -> list[bytes | None]:
        """Return the files of one folder; None for a missing one. Raises: FileNotFound if not plain, or too large."""
        inside = f"{above}/" if above else ""
        with suppress(FileNotFoundError), _refusing(above), open_parent(self._top, inside) as (folder, _name):
            return [_content_in(folder, name, f"{inside}{name}", limit) for name in names]
        return [None] * len(names)

    def read_tail(self, path: str, *, limit: int) -> bytes:
        with suppress(OSError), open_parent(self._top, path) as (folder, name), _open_file(folder, name) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return b"".join(_pieces(file, limit))
        return b""

    def read_part(self, path: str, *, offset: int | None, limit: int) -> FilePart:
        with suppress(OSError), open_parent(self._top, path) as (folder, name), _open_file(folder, name) as file:
            size = os.fstat(file.fileno()).st_size
            begin = min(size, max(0, size - limit if offset is None else offset))
            file.seek(begin)
            return FilePart(content=b"".join(_pieces(file, limit)), offset=begin, size=size)
        return FilePart()

    def matching(self, pattern: str, *, limit: int) -> tuple[str, ...]:
        if not globs.is_glob(pattern):
            return (pattern,) if os.path.lexists(self._root / pattern) else ()
        fixed = "/".join(takewhile(lambda name: not globs.is_glob(name), pattern.split("/")))
        return tuple(islice(self._matching_below(fixed, pattern), limit))

    def below(self, path: str, *, limit: int) -> tuple[str, ...]:
        with suppress(FileNotFoundError), _refusing(path), open_parent(self._top, f"{path}/") as (folder, _name):
            walked = os.fwalk(dir_fd=folder)
            found = (
                os.path.join(path, place, name) for place, _folders, names, _descriptor in walked for name in names
            )
            return tuple(sorted(map(os.path.normpath, found))[:limit])
        return ()

    def prune(self, path: str) -> None:
        with suppress(OSError), open_parent(self._top, f"{path}/") as (folder, _name):
            for _place, folders, _names, descriptor in os.fwalk(dir_fd=folder, topdown=False):
                for name in folders:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=descriptor)
        with suppress(OSError), open_parent(self._top, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def folders(self, path: str, *, limit: int) -> tuple[str, ...]:
        with suppress(FileNotFoundError), _refusing(path), open_parent(self._top, f"{path}/") as (folder, _name):
            with os.scandir(folder) as listed:
                names = sorted(entry.name for entry in listed if not entry.is_file(follow_symlinks=False))
            return tuple(names[:limit])
        return ()

    def _matching_below(self, folder: str, pattern: str) -> Iterator[str]:
        for place, folders, names in os.walk(self._root / folder):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name).relative_to(self._root).as_posix()
                if globs.matches(pattern, path):
                    yield path

    def fingerprint(self, path: str) -> str | None:
        try:
            with open_parent(self._top, path) as (folder, name):
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    return f"no plain file: {stat.filemode(mode)}"
                with _open_file(folder, name) as file:
                    # Few commands need a hash.
                    import hashlib

                    digest = hashlib.sha256()
                    while piece := file.read(_PIECE):
                        digest.update(piece)
                    return digest.hexdigest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Fault(f"`{path}` cannot be read: {error.strerror}.") from error

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError), _refusing(path, "removed"), open_parent(self._top, path) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(_unfinished(name), dir_fd=folder)
            os.unlink(name, dir_fd=folder)

    def write(self, path: str, content: bytes, *, durable: bool = True) -> None:
        try:
            with open_parent(self._top, path, make=True) as (folder, name):
                _write_file(folder, name, content, durable=durable)
        except OSError as error:
            raise Fault(f"`{path}` cannot be written: {error.strerror}.") from error

    def set_aside(self, path: str) -> str:
        aside = f".aop/quarantine/{uuid.uuid4().hex[:12]}/{Path(path).name}"
        try:
            with (
                open_parent(self._top, path) as (folder, name),
                open_parent(self._top, aside, make=True) as (quarantine, _name),
            ):
                os.rename(name, name, src_dir_fd=folder, dst_dir_fd=quarantine)
        except OSError as error:
            raise Fault(f"`{path}` cannot be set aside: {error.strerror}.") from error
        return aside


def _content_in(folder: int, name: str, path: str, limit: int) -> bytes | None:
    try:
        with _open_file(folder, name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise FileNotFound(f"`{path}` has {size} bytes; at most {limit} are read.", path=path)
            return b"".join(_pieces(file, size))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _pieces(file: FileIO, size: int) -> Iterator[bytes]:
    """Yield so many bytes of a file, or what it has."""
    while size > 0 and (piece := file.read(size)):
        size -= len(piece)
        yield piece


def _unreadable(path: str, error: OSError, verb: str = "read") -> FileNotFound:
    return FileNotFound(f"`{path}` cannot be {verb}: {error.strerror}.", path=path)


@contextmanager
def _refusing(path: str, verb: str = "read") -> Iterator[None]:
    """Name the path in an error of the system, except if a file is missing."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error, verb) from error


@contextmanager
def _open_file(folder: int, name: str) -> Iterator[FileIO]:
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is not a plain file")
        # A buffer would cost more than reading a small file.
        with FileIO(descriptor, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _unfinished(name: str) -> str:
    """Return the name of a file while it is written."""
    return f".aop-{name}.tmp"


def _write_file(folder: int, name: str, content: bytes, *, durable: bool) -> None:
    # One temporary name for each file: the next writer replaces what a killed process left. The caller holds a lock.
    beside = _unfinished(name)
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)
    try:
        descriptor = os.open(beside, _CREATE, 0o666, dir_fd=folder)
        try:
            write_whole(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if durable:
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        else:
            put_in_place(beside, name, folder=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
