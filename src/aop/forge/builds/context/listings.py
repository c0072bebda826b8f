"""Listings: the files of a tree, and what changed between two, in few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.ports.git import TreeChange

MOST_FILES = 120
MOST_FOLDERS = 60
MOST_CHANGES = 40
LONGEST_PATH = 160

_VERBS = {"create": "added", "modify": "changed", "delete": "removed"}


def workspace_listing(paths: Iterable[str]) -> str:
    """Return the files of a tree; of a large one, its folders with the number of their files."""
    known = sorted(paths)
    if len(known) <= MOST_FILES:
        return "\n".join(map(_shown, known)) or "(no files yet)"
    folders = Counter(path.partition("/")[0] + "/" for path in known if "/" in path)
    top = [f"{_shown(folder)} ({count(files, 'file')})" for folder, files in sorted(folders.items())]
    loose = [_shown(path) for path in known if "/" not in path]
    return _some([*top, *loose], MOST_FOLDERS)


def change_listing(changes: Sequence[TreeChange]) -> str:
    """Return what changed between two trees."""
    if not changes:
        return "(nothing changed)"
    lines = [f"{_VERBS[change.kind]} {_shown(change.path)}" for change in changes]
    return f"{count(len(lines), 'file')}:\n{_some(lines, MOST_CHANGES)}"


def _some(lines: Sequence[str], most: int) -> str:
    more = [f"... and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])


def _shown(path: str) -> str:
    return visible(path)[:LONGEST_PATH]
