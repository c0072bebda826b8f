"""Code files: the code at a commit, read from its tree as clauses need it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from functools import lru_cache

from aop.core.ids import CommitId, ObjectId, TreeId
from aop.forge.check.clauses import Code
from aop.forge.scan.ports import Scanner
from aop.kernel.ports.git import FileMode, GitObjects, TreeEntry
from aop.kernel.ports.handed_in import Report

LARGEST_FILE = 1024 * 1024
LONGEST_TARGET = 4096
_BINARY_BYTES = 8000


def code_at(commit: CommitId, scanner: Scanner, objects: GitObjects, report: Report) -> Code:
    """Return the code at a commit. Raises: ForgeSupportMissing."""
    return code_in(objects.tree_of(commit), scanner, objects, report)


def code_in(tree: TreeId, scanner: Scanner, objects: GitObjects, report: Report) -> Code:
    """Return the code of a tree, whether or not it is committed. Raises: ForgeSupportMissing."""
    entries = objects.entries(tree)
    files = {each.path: each.oid for each in entries if each.mode in (FileMode.FILE, FileMode.EXECUTABLE)}
    # A file whose name cannot be shown is not read: its clauses are unknown, and it hides nothing.
    named = {path: oid for path, oid in files.items() if path.isprintable()}
    return Code(
        inventory=scanner.read_tree(tree, report),
        paths=tuple(files),
        lines=_Files(objects, named).lines,
        unfollowed={
            each.path: each.mode is FileMode.GITLINK or _target(each, objects) not in files
            for each in entries
            if each.mode in (FileMode.SYMLINK, FileMode.GITLINK)
        },
    )


def _target(link: TreeEntry, objects: GitObjects) -> str:
    """Return the path that a link names, from the root of the repository."""
    if objects.blob_size(link.oid) > LONGEST_TARGET:
        return ""
    target = objects.blob(link.oid).decode("utf-8", "replace")
    return posixpath.normpath(posixpath.join(posixpath.dirname(link.path), target))


class _Files:
    """Files of a tree; the last ones stay in memory, because several patterns look at each."""

    def __init__(self, objects: GitObjects, oids: Mapping[str, ObjectId]) -> None:
        self._objects = objects
        self._oids = oids
        self.lines = lru_cache(maxsize=512)(self._lines)

    def _lines(self, path: str) -> Sequence[str] | None:
        oid = self._oids.get(path)
        if oid is None or self._objects.blob_size(oid) > LARGEST_FILE:
            return None
        content = self._objects.blob(oid)
        if b"\0" in content[:_BINARY_BYTES]:
            return None
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return tuple(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
