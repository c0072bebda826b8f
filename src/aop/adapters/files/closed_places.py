"""Closed places: files of a repository that this user cannot read or write."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

# Folders in which AOP and git make files, and those that hold one folder for each part of it.
_FOLDERS = (
    "",
    ".git",
    ".git/objects",
    ".git/refs",
    ".git/refs/heads",
    ".git/worktrees",
    ".aop",
    ".worktrees",
    "agentic",
    "agentic/features",
)
_OF_PARTS = (".git/objects", ".git/worktrees", ".aop", ".worktrees", "agentic/features")


def closed_place(folder: Path) -> str:
    """Return a sentence about a closed place of the repository that a folder lies in; empty if none is closed."""
    root = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), folder)
    for place in _places(root):
        if not os.access(place, os.R_OK | (os.X_OK if place.is_dir() else 0)):
            return f"`{place}` cannot be read: {_reason(place)}."
        # A read-only disk is closed to everybody.
        if not os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_RDONLY:
            return f"`{place}` cannot be written: {_reason(place)}."
    return ""


def _places(root: Path) -> Iterator[Path]:
    yield from filter(os.path.isdir, (root / name for name in _FOLDERS))
    for folder in filter(os.path.isdir, (root / name for name in _OF_PARTS)):
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    yield from filter(os.path.isfile, (root / ".git/HEAD", root / ".git/config", *(root / ".aop").glob("record.db*")))


def _reason(place: Path) -> str:
    owner = place.stat().st_uid
    if owner == os.geteuid():
        return "its permissions forbid it"
    return f"it belongs to the user {user_name(owner)}, and you are {user_name(os.geteuid())}"


def user_name(user: int) -> str:
    """Return the name of a user in backticks, or the number of one without a name."""
    try:
        return f"`{pwd.getpwuid(user).pw_name}`"
    except KeyError:
        return f"{user}"
