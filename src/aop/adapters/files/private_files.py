"""Private files: the folder `.aop` and its keys, which only their user may change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from aop.core.errors import FilesExposed

KEYS = "keys"
_OTHERS_WRITE = stat.S_IWOTH
_OTHERS_REACH = stat.S_IRWXG | stat.S_IRWXO


def check_private(private: str | os.PathLike[str]) -> None:
    """Refuse a private folder or a key that another user can change or read. Raises: FilesExposed."""
    for problem in exposed_places(os.fspath(private)):
        raise FilesExposed(problem)


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which programs of this user keep what outlives them."""
    return Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or "/", ".local", "state")).absolute()


def exposed_places(private: str) -> Iterator[str]:
    """Yield a sentence about each private file that is open to other users."""
    try:
        found = os.lstat(private)
    except FileNotFoundError:
        return
    # What is not a folder is refused where it is used.
    if stat.S_ISDIR(found.st_mode):
        yield from _problems(private, found, _OTHERS_WRITE, "changed")
        yield from _exposed_keys(f"{private}/{KEYS}")


def _exposed_keys(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
        yield from _problems(folder, os.lstat(folder), _OTHERS_WRITE, "changed")
        found = {f"{folder}/{name}": os.lstat(f"{folder}/{name}") for name in names if name.endswith(".key")}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for path, key in found.items():
        if not stat.S_ISREG(key.st_mode):
            yield f"`{path}` must be a plain file, and is a link or a folder."
        else:
            yield from _problems(path, key, _OTHERS_REACH, "read or changed")


def _problems(path: str, found: os.stat_result, forbidden: int, can_be: str) -> Iterator[str]:
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        yield f"`{path}` can be {can_be} by other users: its mode is {mode:04o}."
    # Root may work on the repository of another user.
    if found.st_uid != os.geteuid() and os.geteuid():
        from aop.adapters.files.closed_places import user_name

        yield f"`{path}` belongs to the user {user_name(found.st_uid)}, and you are {user_name(os.geteuid())}."
