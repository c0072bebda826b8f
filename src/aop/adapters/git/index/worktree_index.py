"""Worktree index: the tree that it holds, and its change to another one."""

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
"""The size from which an index is left behind: about 2,600 files."""


class PlainIndex(Struct, frozen=True, kw_only=True):
    """An index without flags that would keep git from looking at a file."""

    content: bytes
    written_ns: int
    """The time when it was last compared with the files."""
    known: IndexLayout
    tree: TreeId | None
    """Its tree; None if it was changed since that was certain."""

    @property
    def digest_size(self) -> int:
        """Return the number of bytes of an object id."""
        return len(self.known.checksum)


class ShownTree(Struct, frozen=True, kw_only=True):
    """The tree that was last written to the files of a worktree."""

    tree: TreeId
    checksum: str
    """The checksum of the index."""
    index: PlainIndex | None
    """The index, if it holds this tree; None if it was left behind."""


class WorktreeIndex:
    """An index file that is only replaced as a whole, so an `index.lock` that a killed git left does not block it.

    It keeps the time when git last compared it with the files, because git reads every file that is not older.
    Writing a large one costs more than the rest of a patch. It is left behind until all files are looked at again, with
    a note of the tree that the files have become, which is valid for this one index only.
    """

    def __init__(self, path: Path, seen: dict[Path, IndexLayout], *, digest_size: int) -> None:
        self.path = path
        self._seen = seen
        self._digest_size = digest_size

    def read(self) -> PlainIndex | None:
        """Return the index; None if it is absent, damaged, or not plain."""
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

    def last_shown(self) -> ShownTree | None:
        """Return the tree that was last written to the files; None if that is not certain."""
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
        """Tell whether the files may have become another tree since it was written."""
        return self._note() is not None

    def forget_note(self) -> None:
        """Remove the note, so that the index itself counts again."""
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
        """Bring the index to the tree that the files are now, or note that tree. Raises: LookupError as `advance`."""
        if shown.index is not None and len(shown.index.content) < LARGE:
            self.advance(shown.index, changed, on_disk, read=read, to=to)
            return
        # One write of a few bytes is whole or absent.
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
        """Bring the index to a tree, with the status of the written files. Raises: LookupError if in doubt."""
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
        """Replace it with the content of another index."""
        beside = self._beside()
        shutil.copy2(other, beside)
        os.replace(beside, self.path)

    def remove_unfinished(self) -> None:
        """Remove a temporary file that a killed process or a full disk left."""
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
