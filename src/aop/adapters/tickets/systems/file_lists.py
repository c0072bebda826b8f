"""File lists of a branch: folders are listed one after the other, within limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

MOST_FOLDERS = 40
MOST_FILES = 1_000


async def files_below(listed: Callable[[str], Awaitable[Any]]) -> list[str]:
    """Return the files of a tree by path, the upper folders first; `listed` returns `path` and `type` of a folder."""
    files: list[str] = []
    folders = [""]
    for number, folder in enumerate(folders):
        if number >= MOST_FOLDERS or len(files) >= MOST_FILES:
            break
        for row in await listed(folder):
            (folders if row["type"] == "tree" else files).append(str(row["path"]))
    return sorted(files[:MOST_FILES])
