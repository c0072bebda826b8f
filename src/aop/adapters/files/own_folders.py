"""Own folders: folders that AOP owns in a repository, reached without links."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aop.core.errors import Fault, PathOutOfBounds

_REAL_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_A_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_SMALL = 64 * 1024
_HELD_NAME = re.compile(r"[0-9]+-[0-9a-f]{16}")
# A younger folder may belong to a living process that has not locked it yet.
_YOUNG_SECONDS = 60.0


def own_folder(root: Path, *names: str) -> Path:
    """Return a folder below the root, made if missing. Raises: PathOutOfBounds if a link or file is in its place."""
    folder = str(root)
    for number, name in enumerate(names, start=1):
        folder = f"{folder}/{name}"
        try:
            found = os.lstat(folder)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(folder)
            found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode):
            path = "/".join(names[:number])
            raise PathOutOfBounds(
                f"`{path}` must be a folder, and is a link or a file.",
                hint="Move it away; AOP makes the folder itself.",
                path=path,
            )
    return Path(folder)


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, but not the contents of its files."""
    descriptor = os.open(folder, _REAL_FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held_folder(parent: Path) -> Iterator[Path]:
    """Make a folder and remove it afterwards; `abandoned_folders` lists it only if its maker died."""
    folder = parent / f"{os.getpid()}-{os.urandom(8).hex()}"
    folder.mkdir()
    descriptor = os.open(folder, _REAL_FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        remove_folder(folder)
        os.close(descriptor)


def abandoned_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders of `held_folder` whose makers are dead, and lock each meanwhile."""
    for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
        if is_held_name(folder.name):
            # Its maker or another sweep may be removing it now.
            with suppress(FileNotFoundError, NotADirectoryError, BlockingIOError), _abandoned_lock(folder):
                yield folder


def is_alive(pid: str) -> bool:
    """Tell whether a process with this id exists."""
    return os.path.exists(f"/proc/{pid}")


def is_held_name(name: str) -> bool:
    """Tell whether a name is one that `held_folder` gives."""
    return _HELD_NAME.fullmatch(name) is not None


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents, even where a program took away the right to."""
    # Few commands remove a folder, and `shutil` imports every kind of archive.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        grant_access(folder)
        shutil.rmtree(folder, ignore_errors=True)


def grant_access(folder: Path) -> None:
    """Give the owner back all rights to a folder and the folders below it."""
    _grant_owner(str(folder))
    for here, names, _ in os.walk(folder):
        for name in names:
            _grant_owner(os.path.join(here, name))


def remove_files(folder: Path, paths: Iterable[str]) -> None:
    """Remove files below a folder, and folders left empty; never follow a link."""
    top = os.open(folder, _REAL_FOLDER)
    try:
        for path in paths:
            _remove_file(top, path)
    finally:
        os.close(top)


def place_file(folder: Path, path: str, made: Path) -> os.stat_result:
    """Move a file to a path below a folder, and make the folders above it; never follow a link."""
    with open_parent(folder, path, make=True) as (parent, name):
        os.rename(made, name, dst_dir_fd=parent)
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def overwrite_file(folder: Path, path: str, content: bytes, *, executable: bool) -> os.stat_result | None:
    """Overwrite a file below a folder; None if it is not a plain file with these rights and one name."""
    try:
        with open_parent(folder, path) as (parent, name):
            descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "wb") as file:
        found = os.fstat(descriptor)
        is_executable = bool(found.st_mode & stat.S_IXUSR)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or is_executable is not executable:
            return None
        file.write(content)
        file.truncate()
        return os.fstat(descriptor)


def read_file(folder: Path, path: str) -> tuple[os.stat_result, bytes] | None:
    """Return the status and content of a plain file below a folder; None if it is not one, or behind a link."""
    try:
        with open_parent(folder, path) as (parent, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return (found, file.read()) if stat.S_ISREG(found.st_mode) else None


def small_content(path: Path | str) -> bytes | None:
    """Return the content of a small plain file; None if it is absent, a link, larger, or not a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        # Every call reads some of these, so it makes no file object.
        try:
            content = _read_most(descriptor, _SMALL + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return content if content is not None and len(content) <= _SMALL else None


def _read_most(descriptor: int, most: int) -> bytes:
    content = os.read(descriptor, most)
    while len(content) < most and (piece := os.read(descriptor, most - len(content))):
        content += piece
    return content


def write_whole(descriptor: int, content: bytes) -> None:
    """Write all of a content to an open file, without the calls that a buffered file makes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextmanager
def open_parent(folder: Path | str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a path, name by name, so that no link is followed; yield it and the path's last name."""
    *parents, name = path.split("/")
    top = os.open(folder, _REAL_FOLDER)
    try:
        for parent in parents:
            below = _open_below(top, parent, make=make)
            os.close(top)
            top = below
        yield top, name
    finally:
        os.close(top)


def files_below(folder: Path, start: str) -> Iterator[str]:
    """Yield the files below `start`, following no link; a nested repository is one path that ends with a slash."""
    path = start.rstrip("/")
    with os.scandir(folder / path) as listed:
        found = sorted(listed, key=lambda entry: entry.name)
    if any(entry.name == ".git" for entry in found):
        yield f"{path}/"
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(folder, f"{path}/{entry.name}")
        else:
            yield f"{path}/{entry.name}"


class Quarantine:
    """A place for files that AOP moves away and must not destroy: `.aop/quarantine/<feature>/<n>/<path>`."""

    def __init__(self, root: Path, feature_id: str) -> None:
        self._root = root
        self._feature_id = feature_id
        self._folder: Path | None = None

    def take(self, folder: Path, path: str) -> None:
        """Move a file or folder into quarantine."""
        target = self._numbered_folder() / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open_parent(folder, path) as (parent, name):
                os.rename(name, target, src_dir_fd=parent)
        except OSError as error:
            raise Fault(f"`{path}` cannot be moved to quarantine: {error.strerror}.") from error

    def _numbered_folder(self) -> Path:
        if self._folder is None:
            above = own_folder(self._root, ".aop", "quarantine", self._feature_id)
            number = 1 + max((int(name) for name in os.listdir(above) if name.isdigit()), default=0)
            self._folder = above / str(number)
            self._folder.mkdir()
        return self._folder


@contextmanager
def _abandoned_lock(folder: Path) -> Iterator[None]:
    _grant_owner(str(folder))
    descriptor = os.open(folder, _REAL_FOLDER)
    try:
        is_young = time.time() - os.fstat(descriptor).st_mtime < _YOUNG_SECONDS
        if is_young and is_alive(folder.name.partition("-")[0]):
            raise BlockingIOError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _grant_owner(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        # The caller fails by itself if it needs a folder of another user.
        with suppress(PermissionError):
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)


def _open_below(top: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _REAL_FOLDER, dir_fd=top)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=top)
    return os.open(name, _REAL_FOLDER, dir_fd=top)


def _remove_file(top: int, path: str) -> None:
    name, _, below = path.partition("/")
    if not below:
        with suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=top)
        return
    try:
        descriptor = os.open(name, _REAL_FOLDER, dir_fd=top)
    except OSError as error:
        if error.errno in _NOT_A_FOLDER:
            return
        raise
    try:
        _remove_file(descriptor, below)
    finally:
        os.close(descriptor)
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
