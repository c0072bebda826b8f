"""Folders that AOP owns in the managed repository, and moving files in them without being led outside by a link."""

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
_HELD_NAME = re.compile(r"[0-9]+-[0-9a-f]{16}")
# A folder this young may belong to a process that has made it and not yet taken its lock, as long as that one lives.
_YOUNG_SECONDS = 60.0


def own_folder(root: Path, *names: str) -> Path:
    """Make a folder below the root if it is not there, and return it.

    Raises: PathOutOfBounds if a link or a file stands in its place.
    """
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
                f"`{path}` must be a folder of its own, and is a link or a file.",
                hint="Move it away; AOP makes the folder itself.",
                path=path,
            )
    return Path(folder)


def flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk; what the files hold is another matter."""
    descriptor = os.open(folder, _REAL_FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold a lock file alone; the lock ends with its holder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def held_folder(parent: Path) -> Iterator[Path]:
    """Make a new folder that is gone afterwards; while its maker lives, `abandoned_folders` does not list it."""
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
    """Yield the folders of `held_folder` whose makers are dead; each is held during its turn."""
    for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
        if is_held_name(folder.name):
            # Its maker, or another sweep, may be removing it right now.
            with suppress(FileNotFoundError, NotADirectoryError, BlockingIOError), _taken_over(folder):
                yield folder


def is_alive(pid: str) -> bool:
    """Tell whether there is a process of this id."""
    return os.path.exists(f"/proc/{pid}")


def is_held_name(name: str) -> bool:
    """Tell whether `held_folder` gives such names."""
    return _HELD_NAME.fullmatch(name) is not None


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, also where a program took away the right to."""
    # Few commands remove a folder, and it brings every kind of archive along.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        grant_access(folder)
        shutil.rmtree(folder, ignore_errors=True)


def grant_access(folder: Path) -> None:
    """Give the owner back the right to list and to change a folder and all folders below it."""
    _grant(str(folder))
    for here, names, _ in os.walk(folder):
        for name in names:
            _grant(os.path.join(here, name))


def remove_files(folder: Path, paths: Iterable[str]) -> None:
    """Remove files below a folder, and the folders that they leave empty; never through a link."""
    top = os.open(folder, _REAL_FOLDER)
    try:
        for path in paths:
            _remove_file(top, path)
    finally:
        os.close(top)


def place_file(folder: Path, path: str, made: Path) -> os.stat_result:
    """Move a file to a path below a folder, making the folders on its way; never through a link."""
    with open_parent(folder, path, make=True) as (parent, name):
        os.rename(made, name, dst_dir_fd=parent)
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def overwrite_file(folder: Path, path: str, content: bytes, *, executable: bool) -> os.stat_result | None:
    """Give a file below a folder another content; None if it is not a plain file of these rights with one name."""
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
    """Return what is known of a plain file below a folder, and what it holds; None if it is none, or behind a link."""
    try:
        with open_parent(folder, path) as (parent, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return (found, file.read()) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def open_parent(folder: Path | str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that a path below `folder` lies in; yield its descriptor and the path's last name.

    It is opened name by name, so that a link on the way is never followed. `make` makes the folders that are missing.
    """
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
    """Yield the paths of all that is below `start` and is no folder; a link is never followed.

    A repository in there is one path, which ends with a slash.
    """
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
    """Where files go that are in the way and are not AOP's to destroy: `.aop/quarantine/<feature>/<n>/<path>`."""

    def __init__(self, root: Path, feature_id: str) -> None:
        self._root = root
        self._feature_id = feature_id
        self._folder: Path | None = None

    def take(self, folder: Path, path: str) -> None:
        """Move what is at a path below a folder into quarantine."""
        target = self._numbered() / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open_parent(folder, path) as (parent, name):
                os.rename(name, target, src_dir_fd=parent)
        except OSError as error:
            raise Fault(f"`{path}` cannot be moved to quarantine: {error.strerror}.") from error

    def _numbered(self) -> Path:
        if self._folder is None:
            above = own_folder(self._root, ".aop", "quarantine", self._feature_id)
            number = 1 + max((int(name) for name in os.listdir(above) if name.isdigit()), default=0)
            self._folder = above / str(number)
            self._folder.mkdir()
        return self._folder


@contextmanager
def _taken_over(folder: Path) -> Iterator[None]:
    _grant(str(folder))
    descriptor = os.open(folder, _REAL_FOLDER)
    try:
        is_young = time.time() - os.fstat(descriptor).st_mtime < _YOUNG_SECONDS
        if is_young and is_alive(folder.name.partition("-")[0]):
            raise BlockingIOError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _grant(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        # Of a folder that belongs to somebody else, whoever needs it says so.
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
