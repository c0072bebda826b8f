"""Credential files: what the log-in of a coding agent left in the user's home."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from aop.adapters.files.own_folders import open_parent
from aop.core.errors import AgentLoginMissing, AgentLoginUnsafe

LARGEST = 64 * 1024
Content: TypeAlias = Mapping[str, Any]
"""A JSON object of another program, whose shape AOP does not own."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def credentials_in(folder: Path, name: str) -> Content | None:
    """Read one file of a log-in, without following a link; None if it is absent.

    Raises: AgentLoginUnsafe, AgentLoginMissing if it is not a JSON object.
    """
    data = _bytes_of(folder, name)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise AgentLoginMissing(f"`{folder / name}` is not the file of a log-in: it is not a JSON object.") from error


def _bytes_of(folder: Path, name: str) -> bytes | None:
    path = folder / name
    try:
        # The home may be behind a link, the folder of the log-in not.
        with open_parent(os.path.realpath(folder.parent), f"{folder.name}/{name}") as (parent, last):
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise AgentLoginUnsafe(f"`{path}` is behind a link, which AOP does not follow.") from error
        raise AgentLoginUnsafe(f"`{path}` cannot be read: {error.strerror}.") from error
    try:
        _demand_private(path, os.fstat(descriptor))
        data = os.read(descriptor, LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise AgentLoginUnsafe(f"`{path}` is larger than {LARGEST} bytes, which the file of a log-in is not.")
    return data


def _demand_private(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise AgentLoginUnsafe(f"`{path}` is not a plain file.")
    if found.st_uid != os.geteuid():
        raise AgentLoginUnsafe(f"`{path}` belongs to another user.")
    if mode & _OTHERS:
        raise AgentLoginUnsafe(
            f"`{path}` can be reached by other users: its mode is {mode:04o}.", hint=f"Close it with: chmod 600 {path}"
        )
