"""The index of one worktree: which tree it is, and how it becomes another one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from aop.adapters.files.exchange import put_in_place
from aop.adapters.git.index.format import Edit, IndexLayout, edit_index, layout_of
from aop.adapters.git.index.tree_cache import cached_tree, update_notes
from aop.adapters.git.objects.trees import Difference, ReadTree, leaf_before
from aop.core.ids import ObjectId, TreeId

LARGE = 1 << 18
"""How many bytes an index has that is left behind: that of some 2,600 files."""


class PlainIndex(Struct, frozen=True, kw_only=True):
    """An index that says nothing which would keep git from looking at a file."""

    content: bytes
    written_ns: int
    """When it was last compared with the files."""
    known: IndexLayout
    tree: TreeId | None
    """The tree that it is; None if it was changed since that was certain."""

    @property
    def digest_size(self) -> int:
        """Return how many bytes the id of an object has."""
        return len(self.known.checksum)


class ShownTree(Struct, frozen=True, kw_only=True):
    """What the files of a worktree were last made to be."""

    tree: TreeId
    checksum: str
    """Of the index."""
    index: PlainIndex | None
    """The index, if it is this tree; None if it was left behind."""


class WorktreeIndex:
    """An index file that is only ever replaced as a whole: an `index.lock` that a killed git left is in nobody's way.

    It keeps the time that it had when git last compared it with the files. By that, git knows which of them it must
    read to be sure: those that are not older.

    To write a large one costs more than all the rest of a patch. So it is left behind, with a note of the tree that the
    files have become, until somebody looks at all of them. The note holds for this very index, and for no other.
    """

    def __init__(self, path: Path, seen: dict[Path, IndexLayout], *, digest_size: int) -> None:
        self.path = path
        self._seen = seen
        self._digest_size = digest_size

    def read(self) -> PlainIndex | None:
        """Return the index; None if it is absent, damaged, or not a plain one."""
        try:
            with open(self.path, "rb") as file:
                written_ns, content = os.fstat(file.fileno()).st_mtime_ns, file.read()
        except FileNotFoundError:
            return None
        known = self._seen.get(self.path)
        if known is None or known.checksum != content[-self._digest_size :]:
            known = layout_of(content, digest_size=self._digest_size)
        if known is None:
            return None
        self._seen[self.path] = known
        return PlainIndex(
            content=content,
            written_ns=written_ns,
            known=known,
            tree=cached_tree(known.folders, digest_size=self._digest_size),
        )

    def shown(self) -> ShownTree | None:
        """Return what the files were last made to be; None if that is not certain."""
        note = self._note()
        if note is not None:
            checksum, _, tree = note.decode("ascii", "replace").partition(" ")
            is_right = len(note) == 4 * self._digest_size + 1 and checksum == self._checksum()
            return ShownTree(tree=TreeId(ObjectId(tree)), checksum=checksum, index=None) if is_right else None
        index = self.read()
        if index is None or index.tree is None:
            return None
        return ShownTree(tree=index.tree, checksum=index.known.checksum.hex(), index=index)

    @property
    def is_behind(self) -> bool:
        """Tell whether the files may have been made to be another tree since it was written."""
        return self._note() is not None

    def forget_note(self) -> None:
        """Let it stand for what the files are."""
        self._note_path().unlink(missing_ok=True)

    def follow(
        self,
        shown: ShownTree,
        changed: Sequence[Difference],
        on_disk: Mapping[bytes, os.stat_result],
        *,
        read: ReadTree,
        to: TreeId,
    ) -> None:
        """Make it be the tree that the files are now, or note that they are.

        Raises: LookupError as `advance`.
        """
        if shown.index is not None and len(shown.index.content) < LARGE:
            self.advance(shown.index, changed, on_disk, read=read, to=to)
            return
        # One write of a few bytes: it is there as a whole, or not at all.
        note = os.open(self._note_path(), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(note, f"{shown.checksum} {to}".encode("ascii"), 0)
        finally:
            os.close(note)

    def advance(
        self,
        index: PlainIndex,
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
        folders = update_notes(index.known.folders, changed, read=read, tree=to, digest_size=self._digest_size)
        pieces, known = edit_index(index.content, index.known, edits, folders)
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

    def _note_path(self) -> Path:
        return self.path.with_name("index.aop-shown")

    def _note(self) -> bytes | None:
        try:
            return self._note_path().read_bytes()
        except FileNotFoundError:
            return None

    def _checksum(self) -> str:
        try:
            with open(self.path, "rb") as file:
                file.seek(-self._digest_size, os.SEEK_END)
                return file.read().hex()
        except OSError:
            return ""
