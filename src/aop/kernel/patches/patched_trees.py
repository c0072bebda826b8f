"""Patched trees: plain changes are computed here, others by git."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.core.ids import TreeId
from aop.kernel.config.policy import Placement
from aop.kernel.features.trees import is_free_in
from aop.kernel.patches.checks import place_hunks
from aop.kernel.patches.file_headers import FilePatch
from aop.kernel.patches.hunks import NO_NEWLINE, Hunk
from aop.kernel.patches.parser import Patch, render
from aop.kernel.ports.git import FileContent, FileMode, GitObjects, TreeEntry

_PLAIN = (FileMode.FILE, FileMode.EXECUTABLE)


class FittedChange(Struct, frozen=True, kw_only=True):
    """The change of one file with placed hunks, and the old file."""

    file: FilePatch
    entry: TreeEntry | None = None
    old: bytes = b""


def patched_tree(objects: GitObjects, tree: TreeId, patch: Patch, placement: Placement) -> TreeId:
    """Write the tree that results from applying a patch. Raises: PatchDoesNotApply."""
    fitting = [_fit(objects, tree, file, placement) for file in patch.files]
    files = plain_files(objects, tree, fitting)
    if files is not None:
        return objects.tree_with(tree, files)
    paths = {path for file in patch.files for path in file.paths}
    return objects.apply_to_tree(tree, render(Patch(files=tuple(each.file for each in fitting))), paths=paths)


def _fit(objects: GitObjects, tree: TreeId, file: FilePatch, placement: Placement) -> FittedChange:
    entry = objects.entry(tree, file.old_path) if file.old_path and file.hunks else None
    if entry is None or entry.mode in (FileMode.TREE, FileMode.GITLINK):
        return FittedChange(file=file)
    old = objects.blob(entry.oid)
    return FittedChange(file=place_hunks(file, old, placement), entry=entry, old=old)


def plain_files(
    objects: GitObjects, tree: TreeId, changes: Sequence[FittedChange]
) -> dict[str, FileContent | None] | None:
    """Return the changed files of the new tree (None: deleted); None if git must apply the patch."""
    files: dict[str, FileContent | None] = {}
    for change in changes:
        file, entry = change.file, change.entry
        content = apply_hunks(change.old, file.hunks)
        if entry is not None and _rewrites(file, entry):
            files[entry.path] = (entry.mode, content)
        elif entry is not None and _removes(file, entry) and not content:
            files[entry.path] = None
        elif file.new_path is not None and _creates(file) and is_free_in(objects, tree, file.new_path):
            files[file.new_path] = (file.new_mode or FileMode.FILE, content)
        else:
            return None
    return files


def apply_hunks(content: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return the content after applying hunks at their stated lines."""
    lines = content.split(b"\n")
    lines[:-1] = [line + b"\n" for line in lines[:-1]]
    made: list[bytes] = []
    taken = 0
    for hunk in hunks:
        made += lines[taken : hunk.begin]
        for line, follower in zip(hunk.lines, (*hunk.lines[1:], b""), strict=True):
            if line.startswith((b" ", b"+")):
                made += (line[1:], b"" if follower == NO_NEWLINE else b"\n")
        taken = hunk.begin + hunk.old_count
    return b"".join((*made, *lines[taken:]))


def _rewrites(file: FilePatch, entry: TreeEntry) -> bool:
    """Tell whether a patch only changes the content of a plain file."""
    return file.new_path == file.old_path and file.old_mode is file.new_mode is None and entry.mode in _PLAIN


def _removes(file: FilePatch, entry: TreeEntry) -> bool:
    """Tell whether a patch deletes a plain file of the stated mode."""
    return file.new_path is None and file.old_mode in (None, entry.mode) and entry.mode in _PLAIN


def _creates(file: FilePatch) -> bool:
    """Tell whether a patch creates a plain text file."""
    return file.old_path is None and not file.is_binary and file.new_mode in (None, *_PLAIN)
