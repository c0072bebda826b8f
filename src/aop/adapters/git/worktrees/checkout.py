"""Checkout: the files of one worktree, brought to a tree or compared with one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aop.adapters.files.own_folders import Quarantine, held_folder, remove_files, remove_folder
from aop.adapters.git.index.format import entry_offsets
from aop.adapters.git.index.worktree_index import PlainIndex, ShownTree, WorktreeIndex
from aop.adapters.git.objects.store import Objects
from aop.adapters.git.objects.trees import Difference, Side, differences
from aop.adapters.git.process import output
from aop.adapters.git.process.output import RawChange, bytes_of, object_id, text_of
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.worktrees.extras import PLACED
from aop.adapters.git.worktrees.files import WorktreeFiles
from aop.adapters.git.worktrees.stray_scan import other_files
from aop.adapters.git.worktrees.strays import Strays
from aop.adapters.git.worktrees.watch import Watches
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileContent, FileMode, Leavings

_UNREADABLE_INDEX = 128
# With more files git is faster, in spite of its start.
_FEW_FILES = 1000


class Checkout:
    """A folder of files, and the index that describes them as they were last written."""

    def __init__(
        self, neutral: GitDir, objects: Objects, *, folder: Path, index: WorktreeIndex, tmp: Path, watches: Watches
    ) -> None:
        self._neutral = neutral
        self._objects = objects
        self._files = WorktreeFiles(neutral, folder)
        self._strays = Strays(neutral, objects, self._files, tmp=tmp, placed=index.path.with_name(PLACED))
        self._index = index
        self._tmp = tmp
        self._watches = watches

    def follow(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        """Write what differs between the last tree and another one; return what was moved to quarantine."""
        moved = self._follow(tree, quarantine)
        self._index.remove_unfinished()
        return moved

    def show(self, tree: TreeId, quarantine: Quarantine, *, keep_edits: bool = True) -> tuple[str, ...]:
        """Bring the tracked files exactly to a tree; return what blocked a path or was edited: now in quarantine."""
        self._catch_up()
        if self._others_beside(tree) is not None:
            return ()
        with held_folder(self._tmp) as private:
            if not self._index.path.exists() and os.listdir(self._files.folder) == [".git"]:
                index, moved = private / "index", []
                self._files.git("read-tree", "-m", "-u", object_id(tree), index=index)
            else:
                index, differing = self._private_index(private, tree)
                moved = self._update(index, differing, quarantine, keep_edits=keep_edits)
            self._index.replace(index)
            return tuple(moved)

    def compare(self, tree: TreeId) -> tuple[list[RawChange], tuple[str, ...]]:
        """Return the differences of the files from the tree, and the strays."""
        others = self._others_beside(tree)
        if others is not None:
            return [], self._strays.among(others, tree)
        with held_folder(self._tmp) as private:
            index, _ = self._private_index(private, tree)
            # A file that cannot be refreshed counts as different.
            self._files.attempt("update-index", "-q", "--refresh", "--ignore-submodules", index=index)
            return self._files.drift(index), self._strays.among(self._files.others(index), tree)

    def edits(self, tree: TreeId) -> dict[str, FileContent | None]:
        """Return the files that differ from the tree, with their content (None: removed). Raises: InvalidPatch."""
        drift, strays = self.compare(tree)
        return {path: self._files.content(path) for path in sorted({*(change.path for change in drift), *strays})}

    def clear_strays(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        """Show a tree and move the strays to quarantine; return what was moved."""
        moved, strays = self._show_with_strays(tree, quarantine, keep_edits=True)
        for path in strays:
            quarantine.take(self._files.folder, path.rstrip("/"))
        # Only empty folders are left.
        remove_files(self._files.folder, strays)
        return (*moved, *strays)

    def rescue(self, quarantine: Quarantine) -> None:
        """Move edited files and strays to quarantine; without an index, the whole folder."""
        self._catch_up()
        index, folder = self._index.read(), self._files.folder
        if index is None or index.tree is None:
            quarantine.take(folder.parent, folder.name)
            return
        drift, strays = self.compare(index.tree)
        changed = {change.path for change in drift if os.path.lexists(folder / change.path)}
        for path in sorted({*changed, *strays}):
            quarantine.take(folder, path.rstrip("/"))

    def discard_strays(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        """Show a tree and remove the strays; return their paths."""
        _, strays = self._show_with_strays(tree, quarantine, keep_edits=False)
        for path in strays:
            # A nested repository is one stray, and ends with a slash.
            if path.endswith("/"):
                remove_folder(self._files.folder / path)
        self._files.remove(strays)
        return strays

    def renew(self, tree: TreeId, quarantine: Quarantine, *, keep: Sequence[str], ignored: bool) -> Leavings:
        """Bring the folder exactly to a tree; return the edits that were undone, and the paths that were removed."""
        self._catch_up()
        others, changed = self._others_beside(tree), list[str]()
        if others is None:
            changed = sorted(change.path for change in self.compare(tree)[0])
            self.show(tree, quarantine, keep_edits=False)
            others = self.beside(tree)
        extra = self._strays.unkept(others if ignored else set(self._strays.among(others, tree)), keep)
        for path in extra:
            if path.endswith("/"):
                remove_folder(self._files.folder / path)
        # Folders above them that are left empty could be taken for packages.
        self._files.remove(path.rstrip("/") for path in extra)
        return Leavings(changed=tuple(changed), added=tuple(extra))

    def beside(self, tree: TreeId) -> set[str]:
        """Return the paths that an up-to-date index lacks, without those that AOP placed."""
        others = self._others_beside(tree)
        return self._strays.not_placed(self._files.others(self._index.path) if others is None else others)

    def _follow(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        shown = self._index.last_shown()
        if shown is None:
            return self.show(tree, quarantine)
        if shown.tree == tree:
            return ()
        moved: list[str] = []
        try:
            self._rewrite(shown, sorted(differences(self._objects.tree, shown.tree, tree)), tree, quarantine, moved)
        except (LookupError, OSError):
            # Git looks at the files as they are now.
            moved += self.show(tree, quarantine)
        return tuple(moved)

    def _show_with_strays(
        self, tree: TreeId, quarantine: Quarantine, *, keep_edits: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Show a tree; return what was moved to quarantine, and the strays that are left."""
        self._catch_up()
        moved: tuple[str, ...] = ()
        others = self._others_beside(tree)
        if others is None:
            moved = self.show(tree, quarantine, keep_edits=keep_edits)
            others = self._others_beside(tree)
        return moved, self._strays.among(self._files.others(self._index.path) if others is None else others, tree)

    def _catch_up(self) -> None:
        """Bring an index that was left behind up to the tree of the files."""
        if not self._index.is_behind:
            return
        shown, index, read = self._index.last_shown(), self._index.read(), self._objects.tree
        if shown is not None and index is not None and index.tree is not None:
            changed = sorted(differences(read, index.tree, shown.tree))
            found = {
                path: self._files.status_if_same(text_of(path), *new) for path, _, new in changed if new is not None
            }
            on_disk = {path: seen for path, seen in found.items() if seen is not None}
            # Otherwise the files are compared with the index as it is.
            with suppress(LookupError):
                self._index.advance(index, changed, on_disk, read=read, to=shown.tree)
        self._index.forget_note()

    def _others_beside(self, tree: TreeId) -> set[str] | None:
        """Return the untracked paths beside a tree; None if the tree may not be shown."""
        index = self._index.read()
        if index is None or index.tree != tree:
            return None
        return self._watches.others(
            self._files.folder,
            tree,
            read=self._objects.tree,
            look=lambda: self._others_in(index),
            tracked=lambda: [path for path, _ in entry_offsets(index.content, digest_size=index.digest_size)],
        )

    def _others_in(self, index: PlainIndex) -> set[str] | None:
        if index.known.count > _FEW_FILES:
            return None if self._files.drift(self._index.path) else self._files.others(self._index.path)
        return other_files(
            self._files.folder, index.content, indexed_ns=index.written_ns, digest_size=index.digest_size
        )

    def _rewrite(
        self, shown: ShownTree, changed: Sequence[Difference], tree: TreeId, quarantine: Quarantine, moved: list[str]
    ) -> None:
        """Write the files that differ and the index; `moved` grows. Raises: LookupError for what git must do."""
        sides = [(text_of(path), old, new) for path, old, new in changed]
        for path, old, new in sides:
            modes = {side[0] for side in (old, new) if side is not None}
            if not output.is_plain_path(path) or not modes <= {FileMode.FILE, FileMode.EXECUTABLE}:
                raise LookupError(path)
        last = {
            path: [side[1] for side in (old, new) if side is not None] for path, old, new in sides if old is not None
        }
        moved += self._files.set_edits_aside(last, self._objects.blob, quarantine)
        self._files.remove(path for path, _, new in sides if new is None)
        written = {path: new for path, _, new in sides if new is not None}
        created = {path: new for path, old, new in sides if old is None and new is not None}
        moved += self._files.clear_way(written, created, quarantine)
        on_disk = self._write_files(written, created)
        self._index.follow(shown, changed, on_disk, read=self._objects.tree, to=tree)

    def _write_files(self, files: Mapping[str, Side], created: Collection[str]) -> dict[bytes, os.stat_result]:
        """Write files; until the index has them, the next `follow` writes them again."""
        on_disk: dict[bytes, os.stat_result] = {}
        for path, (mode, oid) in files.items():
            found = None if path in created else self._files.overwrite(path, mode, self._objects.blob(oid))
            if found is not None:
                on_disk[bytes_of(path)] = found
        if len(on_disk) < len(files):
            with held_folder(self._tmp) as private:
                for path, (mode, oid) in files.items():
                    if bytes_of(path) not in on_disk:
                        made = self._files.write(path, mode, self._objects.blob(oid), beside=private / "made")
                        on_disk[bytes_of(path)] = made
        return on_disk

    def _update(
        self, index: Path, differing: list[RawChange], quarantine: Quarantine, *, keep_edits: bool
    ) -> list[str]:
        """Bring the files to an index, given its differences from their last state."""
        created = {change.path: (change.old_mode, change.old_oid) for change in differing if change.status == "D"}
        drift = self._files.drift(index)
        own = _own_blobs(differing, drift) if keep_edits else {}
        edited = self._files.set_edits_aside(own, self._objects.blob, quarantine)
        self._files.remove(change.path for change in differing if change.status == "A")
        # The folder of a submodule only has to exist; it is never opened.
        folders = {path for path, (mode, _) in created.items() if mode == FileMode.GITLINK}
        outdated = sorted({change.path for change in drift} | folders)
        moved = edited + self._files.clear_way(outdated, created, quarantine)
        if outdated:
            self._files.git(
                "checkout-index", "-f", "-u", "-z", "--stdin", stdin=output.join_names(outdated), index=index
            )
        return moved

    def _private_index(self, private: Path, tree: TreeId) -> tuple[Path, list[RawChange]]:
        """Copy the index and bring the copy to the tree; return it and the changes (`D`: missing, `A`: extra)."""
        index = private / "index"
        known = self._index.read()
        if known is not None:
            # The copy keeps the time of the original, by which git knows which files it must read.
            shutil.copy2(self._index.path, index)
        arguments = ("diff-index", "--cached", "-z", "--raw", "--no-renames", "--no-abbrev", object_id(tree), "--")
        ran = self._neutral.run(*arguments, index=index, fine=(0, _UNREADABLE_INDEX))
        if ran.code == _UNREADABLE_INDEX:
            # Without an index the files on disk are compared with the tree byte by byte.
            index.unlink(missing_ok=True)
            ran = self._neutral.run(*arguments, index=index)
        if ran.out:
            # Entries in both keep the status of their files, so git must still read the files that are no older than
            # the original: here it cannot mark them, because it does not see them.
            self._neutral.run("read-tree", "-i", "-m", tree, index=index)
            if known is not None:
                os.utime(index, ns=(known.written_ns, known.written_ns))
        return index, list(output.raw_changes(ran.out))


def _own_blobs(differing: Sequence[RawChange], drift: Sequence[RawChange]) -> dict[str, list[str]]:
    """Return the files that will be overwritten or removed, with the blobs that AOP wrote or will write."""
    last: dict[str, str] = {change.path: change.new_oid for change in differing if change.status != "D"}
    created = {change.path for change in differing if change.status == "D"}
    gone = {change.path: [last[change.path]] for change in differing if change.status == "A"}
    changed = {
        change.path: [change.old_oid, last.get(change.path, change.old_oid)]
        for change in drift
        if change.path not in created
    }
    return gone | changed
