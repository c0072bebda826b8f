"""Touched paths: the paths of a change, and whether two changes can conflict.

Two changes that do not meet here merge without a conflict; git need not be asked. It follows renames, so that a change
of one side can move to a name of the other: a file that was renamed is deleted under its old name and created under its
new one, and both are touched; and a folder that was renamed as a whole is removed, and takes along what the other side
creates in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import TypeVar

from msgspec import Struct

from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode, GitObjects

T = TypeVar("T")


class TouchedPaths(Struct, frozen=True, kw_only=True):
    """The paths and folders that a change touches."""

    paths: frozenset[str]
    folders: frozenset[str]
    """Folders above the paths."""
    filled: frozenset[str]
    """Folders above a path that is created."""
    removed: frozenset[str]
    """Folders that the change removes."""

    def meets(self, other: TouchedPaths) -> bool:
        """Tell whether the two can conflict: a path of both, a file where the other has a folder, a moved folder."""
        return not (
            self.paths.isdisjoint(other.paths)
            and self.paths.isdisjoint(other.folders)
            and self.folders.isdisjoint(other.paths)
            and self.removed.isdisjoint(other.filled)
            and self.filled.isdisjoint(other.removed)
        )

    def with_all_of(self, other: TouchedPaths) -> TouchedPaths:
        """Return the union of both."""
        return TouchedPaths(
            paths=self.paths | other.paths,
            folders=self.folders | other.folders,
            filled=self.filled | other.filled,
            removed=self.removed | other.removed,
        )


def touched_paths_between(objects: GitObjects, old: TreeId, new: TreeId) -> TouchedPaths:
    """Return the paths that differ between two trees."""
    changes = objects.changes(old, new)
    paths = frozenset(change.path for change in changes)
    return TouchedPaths(
        paths=paths,
        folders=folders_above(paths),
        filled=folders_above(change.path for change in changes if change.old is None),
        removed=frozenset(
            folder
            for folder in folders_above(change.path for change in changes if change.new is None)
            if not _is_folder(objects, new, folder)
        ),
    )


def folders_above(paths: Iterable[str]) -> frozenset[str]:
    """Return all folders above the paths, without the root."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(folders)


def meeting_pairs(changes: Mapping[T, TouchedPaths]) -> tuple[tuple[T, T], ...]:
    """Return the pairs that meet, in the given order; indexed by place, so other pairs cost nothing."""
    order = {name: number for number, name in enumerate(changes)}
    pairs = {
        (a, b) if order[a] < order[b] else (b, a)
        for a, b in (
            *_sharing(_by_place(changes, "paths")),
            *_crossing(_by_place(changes, "paths"), _by_place(changes, "folders")),
            *_crossing(_by_place(changes, "filled"), _by_place(changes, "removed")),
        )
        if a != b
    }
    return tuple(sorted(pairs, key=lambda pair: (order[pair[0]], order[pair[1]])))


def _by_place(changes: Mapping[T, TouchedPaths], field: str) -> Mapping[str, list[T]]:
    at: dict[str, list[T]] = defaultdict(list)
    for name, touched in changes.items():
        for place in getattr(touched, field):
            at[place].append(name)
    return at


def _sharing(at: Mapping[str, list[T]]) -> Iterator[tuple[T, T]]:
    for names in at.values():
        yield from combinations(names, 2)


def _crossing(a: Mapping[str, list[T]], b: Mapping[str, list[T]]) -> Iterator[tuple[T, T]]:
    for place in a.keys() & b.keys():
        yield from product(a[place], b[place])


def _is_folder(objects: GitObjects, tree: TreeId, path: str) -> bool:
    entry = objects.entry(tree, path)
    return entry is not None and entry.mode is FileMode.TREE
