"""Workspaces: the tree that a caller works on, found by what the caller reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from aop.core.errors import NoWorkspace
from aop.core.ids import FeatureId, TreeId
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Snapshot

if TYPE_CHECKING:
    from aop.kernel.ports.git import GitObjects

LARGEST_READ = 1024 * 1024
MOST_MATCHES = 200


class Workspace(Struct, frozen=True, kw_only=True):
    """The files of a gated workflow or of a build, as its agent sees them."""

    feature_id: FeatureId
    tree: TreeId
    version: int
    """The number of changes so far."""
    own: frozenset[str] = frozenset()
    """The names in the root that the record writes, and no tree holds."""
    files: Callable[[], Mapping[str, bytes | None]] = dict
    """Returns the files below these names; None if one is absent."""
    next_call: str = ""
    """The call that follows a read; empty if there is no order."""
    largest_read: int = LARGEST_READ
    most_matches: int = MOST_MATCHES

    def is_own(self, path: str) -> bool:
        """Tell whether the record writes a path, and not the agent."""
        return path.partition("/")[0] in self.own

    def content(self, objects: GitObjects, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        from aop.kernel.ports.git import FileMode

        if self.is_own(path):
            return self.files().get(path)
        entry = objects.entry(self.tree, path)
        if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
            return None
        return objects.blob(entry.oid)

    def names(self, objects: GitObjects, folder: str) -> list[str]:
        """Return the names in a folder (`""` is the root), sorted; those of folders end with `/`."""
        written = [path for path, content in self.files().items() if content is not None] if self._shows(folder) else []
        below = f"{folder}/" if folder else ""
        shown = {_first(path.removeprefix(below)) for path in written if path.startswith(below)}
        return sorted(shown.union(_names(objects, self.tree, folder)))

    def _shows(self, folder: str) -> bool:
        return not folder or self.is_own(folder)


def _names(objects: GitObjects, tree: TreeId, folder: str) -> list[str]:
    from aop.kernel.ports.git import FileMode

    def is_folder(name: str) -> bool:
        entry = objects.entry(tree, f"{folder}/{name}" if folder else name)
        return entry is not None and entry.mode is FileMode.TREE

    return [f"{name}/" if is_folder(name) else name for name in objects.names(tree, folder)]


def _first(path: str) -> str:
    name, slash, _rest = path.partition("/")
    return name + slash


def no_workspace(_view: Snapshot, principal: Principal) -> Workspace:
    """Refuse: nothing of this repository is a workspace of the caller. Raises: NoWorkspace."""
    raise NoWorkspace(f"The role `{principal.role}` has no workspace here.", role=principal.role)
