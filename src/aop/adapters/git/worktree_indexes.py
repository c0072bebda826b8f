"""The index of one worktree: which tree it is, and how it becomes another one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from aop.adapters.exchanging import put_in_place
from aop.adapters.git.index_files import Edit, KnownIndex, edited_index, known_index
from aop.adapters.git.index_folders import noted_tree, renoted
from aop.adapters.git.trees import Difference, ReadTree, leaf_before
from aop.core.ids import TreeId


class ReadIndex(Struct, frozen=True, kw_only=True):
    """An index that says nothing which would keep git from looking at a file."""

    content: bytes
    written_ns: int
    """When it was last compared with the files."""
    known: KnownIndex
    tree: TreeId | None
    """The tree that it is; None if it was changed since that was certain."""

    @property
    def digest_size(self) -> int:
        """Return how many bytes the id of an object has."""
        return len(self.known.checksum)


class WorktreeIndex:
    """An index file that is only ever replaced as a whole: an `index.lock` that a killed git left is in nobody's way.

    It keeps the time that it had when git last compared it with the files. By that, git knows which of them it must
    read to be sure: those that are not older.
    """

    def __init__(self, path: Path, seen: dict[Path, KnownIndex], *, digest_size: int) -> None:
        self.path = path
        self._seen = seen
        self._digest_size = digest_size

    def read(self) -> ReadIndex | None:
        """Return the index; None if it is absent, damaged, or not a plain one."""
        try:
            with open(self.path, "rb") as file:
                written_ns, content = os.fstat(file.fileno()).st_mtime_ns, file.read()
        except FileNotFoundError:
            return None
        known = self._seen.get(self.path)
        if known is None or known.checksum != content[-self._digest_size :]:
            known = known_index(content, digest_size=self._digest_size)
        if known is None:
            return None
        self._seen[self.path] = known
        return ReadIndex(
            content=content,
            written_ns=written_ns,
            known=known,
            tree=noted_tree(known.folders, digest_size=self._digest_size),
        )

    def advance(
        self,
        index: ReadIndex,
        changed: Sequence[Difference],
        on_disk: Mapping[bytes, os.stat_result],
        *,
        read: ReadTree,
        to: TreeId,
    ) -> None:
        """Make it be another tree, of whose files `on_disk` tells what was written.

        Raises: LookupError if that is not certain to be right.
        """
        if index.tree is None:
            raise LookupError(self.path)
        edits = [
            Edit(
                path=path,
                old=old,
                new=new,
                on_disk=on_disk.get(path),
                after=leaf_before(read, index.tree, path) if old is None else None,
            )
            for path, old, new in changed
        ]
        folders = renoted(index.known.folders, changed, read=read, tree=to, digest_size=self._digest_size)
        pieces, known = edited_index(index.content, index.known, edits, folders)
        beside = self._beside()
        with open(beside, "wb") as file:
            file.writelines(pieces)
        shutil.copystat(self.path, beside)
        put_in_place(str(beside), str(self.path))
        self._seen[self.path] = known

    def replace(self, other: Path) -> None:
        """Put the content of another index in its place."""
        beside = self._beside()
        shutil.copy2(other, beside)
        os.replace(beside, self.path)

    def remove_unfinished(self) -> None:
        """Remove what a killed process, or a full disk, left beside it."""
        self._beside().unlink(missing_ok=True)

    def _beside(self) -> Path:
        return self.path.with_name("index.aop")
