"""Feature worktrees: made, shown, compared and removed, without losing work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import Quarantine, held_folder, own_folder, remove_folder
from aop.adapters.git.process.output import object_id, porcelain
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.refs.branches import Branches, branch_ref
from aop.adapters.git.repository_objects import RepositoryObjects
from aop.adapters.git.worktrees.registrations import Registrations, how_to_follow, how_to_sync
from aop.core import ids
from aop.core.errors import Fault, WorktreeMissing
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId
from aop.kernel.ports.git import Leavings, WorktreeStatus

if TYPE_CHECKING:
    # Only calls that write files and indexes import these.
    from aop.adapters.git.index.format import IndexLayout
    from aop.adapters.git.index.worktree_index import WorktreeIndex
    from aop.adapters.git.worktrees.checkout import Checkout
    from aop.adapters.git.worktrees.watch import Watches


class RegisteredWorktree(Struct, frozen=True, kw_only=True):
    """A worktree as git has registered it."""

    folder: Path
    """Git's own folder for it."""
    ref: str
    """The full name of its branch; empty if it is on none."""
    commit: CommitId
    tree: TreeId
    """The tree in its index."""


class FeatureWorktrees:
    """Implements `aop.kernel.ports.git.GitWorktrees`."""

    def __init__(
        self,
        registrations: Registrations,
        objects: RepositoryObjects,
        branches: Branches,
        neutral: Callable[[], GitDir],
        *,
        root: Path,
        folder: str,
        digest_size: int,
    ) -> None:
        self._registrations = registrations
        self._objects = objects
        self._branches = branches
        self._neutral = neutral
        self._root = root
        self._folder = folder
        self._digest_size = digest_size
        self._seen_indexes: dict[Path, IndexLayout] = {}

    def close(self) -> None:
        """Stop watching the worktrees; the next comparison starts again."""
        if "_watches" in vars(self):
            self._watches.close()

    def path(self, feature_id: FeatureId) -> Path:
        return self._root / self._folder / ids.feature_id(feature_id)

    def head(self, feature_id: FeatureId) -> str | None:
        return self._registrations.head_of(self.path(feature_id))

    def ensure(self, feature_id: FeatureId, branch: str) -> Path:
        folder = self._worktrees_folder() / ids.feature_id(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        with locked_file(self._own("locks") / f"git-{feature_id}"):
            registration = self._registrations.likely_registration(folder)
            if registration is None:
                # Git would look for a branch of that name at a remote, and change the config.
                if self._branches.head(branch) is None:
                    raise Fault(f"There is no branch `{branch}` for the worktree of `{feature_id}`.")
                registration = self._registrations.add_on_branch(folder, branch, quarantine)
            self._registrations.restore(folder, registration, quarantine)
            self._registrations.point_head(registration, branch_ref(branch))
            if not (registration / "index").exists():
                self._checkout(folder, registration).show(self._tree_at_head(registration), quarantine)
        return folder

    def ensure_detached(self, feature_id: FeatureId, commit: CommitId) -> Path:
        folder = self._worktrees_folder() / ids.feature_id(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        with locked_file(self._own("locks") / f"git-{feature_id}"):
            registration = self._registrations.ensure_detached(folder, object_id(commit), quarantine)
            self._registrations.restore(folder, registration, quarantine)
            if not (registration / "index").exists():
                self._checkout(folder, registration).show(self._tree_at_head(registration), quarantine)
        return folder

    def show_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restore(feature_id)[0].show(tree, Quarantine(self._root, feature_id))

    def follow_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        checkout, was_whole = self._restore(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        return checkout.follow(tree, quarantine) if was_whole else checkout.show(tree, quarantine)

    def clear_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restore(feature_id)[0].clear_strays(tree, Quarantine(self._root, feature_id))

    def discard_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restore(feature_id)[0].discard_strays(tree, Quarantine(self._root, feature_id))

    def renew(self, folder: Path, tree: TreeId, *, keep: Sequence[str] = (), ignored: bool = True) -> Leavings:
        registration, quarantine = self._registration(folder), Quarantine(self._root, folder.name)
        self._registrations.restore(folder, registration, quarantine)
        return self._checkout(folder, registration).renew(tree, quarantine, keep=keep, ignored=ignored)

    def beside(self, folder: Path, tree: TreeId) -> tuple[str, ...]:
        return tuple(sorted(self._checkout(folder, self._registration(folder)).beside(tree)))

    def edited_tree(self, feature_id: FeatureId, tree: TreeId) -> TreeId:
        folder = self.path(feature_id)
        registration = self._registration(folder)
        if folder.is_symlink() or not folder.is_dir():
            raise WorktreeMissing(f"The worktree of `{feature_id}` is not there.", feature_id=feature_id)
        edits = self._checkout(folder, registration).edits(tree)
        return self._objects.tree_with(tree, edits) if edits else tree

    def status(self, feature_id: FeatureId, tree: TreeId) -> WorktreeStatus:
        folder = self.path(feature_id)
        registration = self._registration(folder)
        # A deleted folder is compared as an empty one.
        there = folder if folder.is_dir() and not folder.is_symlink() else self._neutral().work_tree
        drift, untracked = self._checkout(there, registration).compare(tree)
        accepted = self._objects.changes(self._tree_at_head(registration), tree)
        strays = sorted({*untracked, *(change.path for change in drift)})
        return WorktreeStatus(porcelain=porcelain(accepted, drift, untracked), strays=tuple(strays))

    def remove(self, feature_id: FeatureId) -> None:
        folder = self.path(feature_id)
        with locked_file(self._own("locks") / f"git-{feature_id}"):
            registration = self._registrations.registration(folder)
            if os.path.lexists(folder):
                quarantine = Quarantine(self._root, feature_id)
                if registration is None or folder.is_symlink() or not folder.is_dir():
                    quarantine.take(folder.parent, folder.name)
                else:
                    self._checkout(folder, registration).rescue(quarantine)
                remove_folder(folder)
            # Last: a killed removal needs it to know which files were AOP's.
            self._registrations.forget(folder)

    @contextmanager
    def scratch(self, commit: CommitId) -> Iterator[Path]:
        tree = self._objects.tree_of(commit)
        with held_folder(self._own("scratch")) as folder:
            try:
                registration = self._registrations.add_detached(folder, commit)
                self._checkout(folder, registration).show(tree, Quarantine(self._root, "scratch"))
                yield folder
            finally:
                self._registrations.forget(folder)

    def registered(self, folder: Path) -> RegisteredWorktree | None:
        """Return what git has registered for the worktree at a path; None if that is nothing, or its branch is gone."""
        registration = self._registrations.registration(folder)
        named = "" if registration is None else os.fsdecode((registration / "HEAD").read_bytes()).strip()
        ref = named.removeprefix("ref: ") if named.startswith("ref: ") else ""
        commit = self._branches.head(ref.removeprefix("refs/heads/")) if ref else CommitId(ObjectId(named))
        if registration is None or commit is None:
            return None
        return RegisteredWorktree(
            folder=registration, ref=ref, commit=commit, tree=self._tree_in(self._index_of(registration), commit)
        )

    def users_of(self, branch: str, *, besides: FeatureId) -> tuple[str, ...]:
        own = self.path(besides)
        on_branch = (checkout for checkout in self._registrations.checkouts() if checkout.ref == branch_ref(branch))
        return tuple(checkout.folder.name for checkout in on_branch if checkout.folder != own)

    def checkout_behind(self, branch: str, *, old: CommitId, new: CommitId) -> str | None:
        ours = (self._root / self._folder, self._root / ".aop")
        behind = [
            checkout.folder
            for checkout in self._registrations.checkouts()
            if checkout.ref == branch_ref(branch) and not any(map(checkout.folder.is_relative_to, ours))
        ]
        if old == new or not behind:
            return None
        return " ".join(
            how_to_sync(branch) if folder == self._root else how_to_follow(f"`{folder.name}`", branch, old, new)
            for folder in behind
        )

    @cached_property
    def _watches(self) -> Watches:
        from aop.adapters.git.worktrees.watch import Watches

        return Watches()

    def _own(self, name: str) -> Path:
        return own_folder(self._root, ".aop", name)

    def _worktrees_folder(self) -> Path:
        return own_folder(self._root, *self._folder.split("/"))

    def _registration(self, folder: Path) -> Path:
        registration = self._registrations.registration(folder)
        if registration is None:
            raise WorktreeMissing(f"Git has no worktree of `{folder.name}`.", feature_id=folder.name)
        return registration

    def _restore(self, feature_id: FeatureId) -> tuple[Checkout, bool]:
        """Return the worktree, and whether it was complete before."""
        folder = self._worktrees_folder() / ids.feature_id(feature_id)
        registration = self._registration(folder)
        was_whole = self._registrations.restore(folder, registration, Quarantine(self._root, feature_id))
        return self._checkout(folder, registration), was_whole

    def _checkout(self, folder: Path, registration: Path) -> Checkout:
        from aop.adapters.git.worktrees.checkout import Checkout

        return Checkout(
            self._neutral(),
            self._objects,
            folder=folder,
            index=self._index_of(registration),
            tmp=self._own("tmp"),
            watches=self._watches,
        )

    def _tree_at_head(self, registration: Path) -> TreeId:
        out = self._registrations.run_in(registration, "rev-parse", "--verify", "HEAD^{tree}")
        return TreeId(ObjectId(out.decode("ascii").strip()))

    def _tree_in(self, index: WorktreeIndex, head: CommitId) -> TreeId:
        """Return the tree that an index holds; that of its commit if there is no index."""
        found = index.read()
        if found is not None and found.tree is not None:
            return found.tree
        if not index.path.exists():
            return self._objects.tree_of(head)
        return TreeId(ObjectId(self._neutral().run("write-tree", index=index.path).out.decode("ascii").strip()))

    def _index_of(self, registration: Path) -> WorktreeIndex:
        from aop.adapters.git.index.worktree_index import WorktreeIndex

        return WorktreeIndex(registration / "index", self._seen_indexes, digest_size=self._digest_size)
