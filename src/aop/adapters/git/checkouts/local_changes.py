"""Local changes: what a checkout holds in the way of a two-way step.

Git's own rule decides path by path: a path that differs between the two trees is brought along if index and file are
still as in the old one, and is left alone if the index has the new one already. Everything else is in the way. Unlike
with `git read-tree`, ignored files count, all paths are named, and the remains of a killed step are recognised.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from aop.adapters.git.checkouts.settings import CheckoutSettings, without_filters
from aop.adapters.git.index.format import layout_of
from aop.adapters.git.index.tree_cache import cached_tree
from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.process.output import bytes_of, file_mode, object_id, quote_name, raw_changes
from aop.adapters.git.process.program import GitDir
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry

Side: TypeAlias = tuple[FileMode, str] | None
_LARGEST_INDEX = 512 * 1024
_UNMERGED: Side = (FileMode.FILE, "")


class StepExamination(Struct, frozen=True, kw_only=True):
    """The paths of a step by what the checkout holds there; paths that can simply follow are in none."""

    blocking: tuple[str, ...]
    """Paths whose local change would be lost."""
    arrived: tuple[TreeChange, ...]
    """Files that are as in the new tree already, while the index is not."""
    emptied: tuple[str, ...]
    """Files that a killed git was about to write."""


def index_tree(path: Path, *, digest_size: int) -> TreeId | None:
    """Return the tree that an index holds without any change, if its notes say so; None if git has to be asked."""
    # Of a larger one git knows sooner.
    if os.path.getsize(path) > _LARGEST_INDEX:
        return None
    known = layout_of(path.read_bytes(), digest_size=digest_size)
    return None if known is None else cached_tree(known.folders, digest_size=digest_size)


def old_sides(changes: Sequence[TreeChange]) -> dict[str, Side]:
    """Return what an index holds at the paths of a step if it holds the old tree."""
    return {change.path: _side(change.old) for change in changes}


def staged_sides(git: GitDir, tree: TreeId) -> dict[str, Side]:
    """Return what the index holds at each path where it differs from a tree."""
    out = git.run("diff-index", "--cached", "-z", "--raw", "--no-renames", "--no-abbrev", object_id(tree), "--").out
    sides: dict[str, Side] = {}
    for change in raw_changes(out):
        if change.status == "U":
            sides[change.path] = _UNMERGED
        elif sides.get(change.path) != _UNMERGED:
            gone = change.status == "D"
            sides[change.path] = None if gone else (file_mode(change.new_mode), change.new_oid)
    return sides


def is_behind(changes: Sequence[TreeChange], staged: Mapping[str, Side]) -> bool:
    """Tell whether an index still shows the old tree of a step, given where it differs from the new one."""
    differing = [change for change in changes if change.path in staged]
    at_old = any(staged[change.path] == _side(change.old) for change in differing)
    return at_old or (bool(changes) and len(differing) == len(changes))


def shows_old_tree(changes: Sequence[TreeChange], staged: Mapping[str, Side]) -> bool:
    """Tell whether an index has the old side at every path of a step, given where it differs from the new tree."""
    return bool(changes) and all(
        change.path in staged and staged[change.path] == _side(change.old) for change in changes
    )


class LocalChanges:
    """The index and the files of a checkout."""

    def __init__(self, git: GitDir, root: Path, settings: CheckoutSettings, *, digest_size: int) -> None:
        self._git = git
        self._root = root
        self._settings = settings
        self._digest_size = digest_size
        self._kind_of = cache(self._look)

    def examine(
        self, changes: Sequence[TreeChange], staged: Mapping[str, Side], *, after_crash: bool
    ) -> StepExamination:
        """Compare the checkout with both trees of a step."""
        blocking: list[str] = []
        following: list[TreeChange] = []
        for change in changes:
            index = staged.get(change.path, _side(change.new))
            if index == _side(change.old):
                following.append(change)
            elif index != _side(change.new):
                blocking.append(change.path)
        paths = {change.path for change in following}
        arrived, emptied = [], []
        contents = self._contents(following)
        for change in following:
            blocking += self._in_the_way(change, paths)
            found = contents.get(change.path)
            if found is None or self._is_as(found, change.old):
                continue
            if self._is_as(found, change.new):
                arrived.append(change)
            elif after_crash and self._is_empty(change.path):
                emptied.append(change.path)
            else:
                blocking.append(change.path)
        return StepExamination(blocking=tuple(sorted(set(blocking))), arrived=tuple(arrived), emptied=tuple(emptied))

    def _contents(self, changes: Sequence[TreeChange]) -> dict[str, tuple[FileMode, str]]:
        """Return mode and blob of each path that is not a folder; no blob for what cannot be read."""
        found: dict[str, tuple[FileMode, str]] = {}
        converted: list[str] = []
        for change in changes:
            path, kind = change.path, self._kind_of(change.path)
            if not kind or stat.S_ISDIR(kind):
                continue
            mode = FileMode.EXECUTABLE if kind & stat.S_IXUSR else FileMode.FILE
            found[path] = (FileMode.SYMLINK if stat.S_ISLNK(kind) else mode, self._raw_blob(path, kind))
            # The content may be that of the blob with other line endings, which only git can tell.
            if stat.S_ISREG(kind) and found[path][1] not in ("", *_blobs(change)):
                converted.append(path)
        if converted:
            names = bytes_of("".join(f"{quote_name(path)}\n" for path in converted))
            hashed = self._git.run(*without_filters(self._settings), "hash-object", "--stdin-paths", stdin=names)
            oids = hashed.out.decode("ascii").split()
            found |= {path: (found[path][0], oid) for path, oid in zip(converted, oids, strict=True)}
        return found

    def _raw_blob(self, path: str, kind: int) -> str:
        """Return the blob of a file or link, byte for byte; empty if it cannot be read."""
        try:
            if stat.S_ISLNK(kind):
                content = os.fsencode(os.readlink(self._root / path))
            elif stat.S_ISREG(kind):
                content = (self._root / path).read_bytes()
            else:
                return ""
        except PermissionError:
            return ""
        return id_of(object_bytes("blob", content), digest_size=self._digest_size)

    def _is_as(self, found: tuple[FileMode, str], entry: TreeEntry | None) -> bool:
        if entry is None or found[1] != entry.oid:
            return False
        # Where git is told not to trust the bits of the file system, neither does this.
        return found[0] is entry.mode or not self._settings.trusts_modes

    def _in_the_way(self, change: TreeChange, following: set[str]) -> Iterator[str]:
        """Yield what is on disk in place of the path or of one of its folders, and is not part of the step."""
        parts = change.path.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            kind = self._kind_of(parent)
            if kind and not stat.S_ISDIR(kind):
                if parent not in following:
                    yield parent
                return
        is_submodule = FileMode.GITLINK in {side.mode for side in (change.old, change.new) if side is not None}
        if stat.S_ISDIR(self._kind_of(change.path)) and not is_submodule:
            for folder, _, names in os.walk(self._root / change.path):
                below = (os.path.relpath(os.path.join(folder, name), self._root) for name in names)
                yield from (path for path in below if path not in following)

    def _is_empty(self, path: str) -> bool:
        return os.lstat(self._root / path).st_size == 0

    def _look(self, path: str) -> int:
        """Return the mode of what is on disk at a path; 0 if nothing is."""
        try:
            return os.lstat(self._root / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0


def _blobs(change: TreeChange) -> tuple[str, ...]:
    return tuple(side.oid for side in (change.old, change.new) if side is not None)


def _side(entry: TreeEntry | None) -> Side:
    return None if entry is None else (entry.mode, entry.oid)
