"""Git port: objects, branches and worktrees; the user's checkout is never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId


class FileMode(StrEnum):
    """The modes that a git tree can hold."""

    FILE = "100644"
    EXECUTABLE = "100755"
    SYMLINK = "120000"
    GITLINK = "160000"
    TREE = "040000"


FileContent: TypeAlias = tuple[FileMode, bytes]
"""A plain file, as a tree is to hold it."""


class TreeEntry(Struct, frozen=True, kw_only=True):
    """One name in a tree."""

    path: str
    mode: FileMode
    oid: ObjectId


class TreeChange(Struct, frozen=True, kw_only=True):
    """One path that differs between two trees, as `git diff-tree --raw` says. A side that is absent is None."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None

    @property
    def kind(self) -> str:
        """Return `create`, `delete` or `modify`."""
        if self.old is None:
            return "create"
        return "delete" if self.new is None else "modify"


class MergedTree(Struct, frozen=True, kw_only=True):
    """A merge without conflicts."""

    tree: TreeId


class ConflictedPaths(Struct, frozen=True, kw_only=True):
    """A merge that a person or an agent must resolve."""

    tree: TreeId
    """The merged tree: files that conflict hold the lines of both sides, between conflict markers."""
    stages: Mapping[str, tuple[int, ...]]
    """For each path who has it: 1 the commit that both come from, 2 ours, 3 theirs."""
    between: tuple[CommitId, CommitId]
    """The commits that the conflict markers name: ours, theirs."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that conflict."""
        return tuple(self.stages)


class Proposal(Struct, frozen=True, kw_only=True):
    """A candidate for a merge: a commit, or a tree as if it were committed on it."""

    commit: CommitId
    tree: TreeId | None = None


class TrialMerge(Struct, frozen=True, kw_only=True):
    """The outcome of a trial merge."""

    tree: TreeId | None
    """Only there until the trials end; None where the two have no commit in common."""
    is_clean: bool
    stages: Mapping[str, tuple[int, ...]]
    """As in `ConflictedPaths`; a merge can fail with no path, by names alone."""


class Trials(Protocol):
    """Merges that leave nothing behind."""

    def merge(self, pairs: Sequence[tuple[Proposal, Proposal]]) -> tuple[TrialMerge, ...]:
        """Try each pair; the tree of an earlier one may be part of a later proposal."""


class WorktreeStatus(Struct, frozen=True, kw_only=True):
    """How a worktree on disk differs from HEAD and from the tree that the record holds."""

    porcelain: str
    """`git status --porcelain` with the recorded tree as the index: accepted changes are staged, drift is not."""
    strays: tuple[str, ...]
    """Paths on disk that are not ignored and are not what the recorded tree says."""


class Leavings(Struct, frozen=True, kw_only=True):
    """The traces of a process in a worktree, which were undone."""

    changed: tuple[str, ...] = ()
    """Files of the tree that it changed or removed."""
    added: tuple[str, ...] = ()
    """Paths beside the tree; a folder ends with a slash."""


class Author(Struct, frozen=True, kw_only=True):
    """The author of a commit."""

    name: str
    email: str


class LoggedCommit(Struct, frozen=True, kw_only=True):
    """A commit as the log of a branch shows it."""

    commit: CommitId
    tree: TreeId
    author: Author
    at: str
    """When it was written, as ISO 8601."""
    message: str


class GitObjects(Protocol):
    """Blobs, trees and commits: content that its id names and that never changes."""

    def tree_of(self, commit: CommitId) -> TreeId:
        """Return the tree of a commit."""

    def is_ancestor(self, older: CommitId, newer: CommitId) -> bool:
        """Tell whether one commit is contained in another (a commit contains itself)."""

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        """Return what a tree holds at a path, or None. Never follows a symlink."""

    def entries(self, tree: TreeId) -> tuple[TreeEntry, ...]:
        """Return all files of a tree, in git's order."""

    def names(self, tree: TreeId, folder: str) -> tuple[str, ...]:
        """Return the names that a folder of a tree holds itself (`""` is the root); none if it is not a folder."""

    def blob(self, oid: ObjectId) -> bytes:
        """Return the bytes of a blob."""

    def blob_size(self, oid: ObjectId) -> int:
        """Return the size of a blob without reading it."""

    def files_with(self, tree: TreeId, text: str) -> frozenset[str]:
        """Return the paths of a tree whose content holds a text of one line, byte for byte."""

    def changes(self, old: TreeId, new: TreeId) -> tuple[TreeChange, ...]:
        """Return every path that differs, without rename detection, sorted by path."""

    def diff(
        self, old: TreeId, new: TreeId, *, context_lines: int = 3, paths: Sequence[str] = (), binary: bool = False
    ) -> bytes:
        """Return the unified diff of two trees, new files included; no external diff, no textconv.

        With `binary` it has the bytes of binary files, and can be applied.
        """

    def diff_stat(self, old: TreeId, new: TreeId, *, paths: Sequence[str] = ()) -> str:
        """Return `git diff --stat` of two trees, for people."""

    def apply_to_tree(self, tree: TreeId, patch: bytes, *, paths: AbstractSet[str]) -> TreeId:
        """Return the tree after a checked patch, which names these paths. Raises: PatchDoesNotApply."""

    def tree_with(self, tree: TreeId, files: Mapping[str, FileContent | None]) -> TreeId:
        """Write a tree that has these files (None: not there), none of them in the way of another; return it."""

    def commit(
        self,
        tree: TreeId,
        parents: Sequence[CommitId],
        message: str,
        *,
        when: datetime,
        author: Author | None = None,
    ) -> CommitId:
        """Write a commit object, by the author that the repository names if none is given.

        The same arguments give the same id.
        """

    def log(self, since: CommitId, until: CommitId, *, limit: int) -> tuple[LoggedCommit, ...]:
        """Return the commits that one commit contains and another does not: the newest ones, oldest first."""


class GitBranches(Protocol):
    """Local branches, and the refs that keep a feature's tree from garbage collection."""

    def head(self, branch: str) -> CommitId | None:
        """Return the commit of a local branch, or None if there is none (absent or unborn)."""

    def create(self, branch: str, at: CommitId) -> None:
        """Make a branch at a commit; fine if it is there already. Raises: BranchExists if it is elsewhere."""

    def move(self, branch: str, *, to: CommitId, old: CommitId) -> bool:
        """Move a branch if it still is at `old`; tell whether it was."""

    def delete(self, branch: str, *, at: CommitId) -> bool:
        """Delete a branch if it still is at a commit; tell whether it is gone."""

    def keep(self, feature_id: FeatureId, tree: TreeId, *, aside: bool = False) -> None:
        """Keep a tree from being collected as garbage: as long as the feature has no other one, or for ever."""

    def forget(self, feature_id: FeatureId) -> None:
        """Let go of the tree that `keep` kept; fine if none is kept."""


class GitWorktrees(Protocol):
    """The worktrees of the features, and the checkouts that people have."""

    def path(self, feature_id: FeatureId) -> Path:
        """Return the folder of the feature's worktree, whether or not it exists."""

    def head(self, feature_id: FeatureId) -> str | None:
        """Return the full ref or the commit that HEAD of the worktree names; None if git knows no such worktree."""

    def ensure(self, feature_id: FeatureId, branch: str) -> Path:
        """Make the feature's worktree, checked out on its branch, if it is not there; return its folder."""

    def ensure_detached(self, feature_id: FeatureId, commit: CommitId) -> Path:
        """Make the worktree at a commit, on no branch; an existing one is taken off its branch. Return its folder."""

    def show_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        """Make the tracked files be exactly this tree, also after a crash; return the paths moved to quarantine."""

    def follow_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        """Do what `show_tree` does for what differs from the tree that was shown last; edits of other files stay."""

    def clear_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        """Do what `show_tree` does, and also quarantine every file that is neither ignored nor in the tree."""

    def discard_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        """Remove what a gate run left, edits and files that are neither ignored nor in the tree; return their paths."""

    def renew(self, folder: Path, tree: TreeId, *, keep: Sequence[str] = (), ignored: bool = True) -> Leavings:
        """Bring a worktree, also a scratch one, exactly to a tree; return what was undone.

        What AOP placed beside the tree stays, as does what `keep` names: files, folders or patterns. Without
        `ignored`, ignored files stay too.
        """

    def beside(self, folder: Path, tree: TreeId) -> tuple[str, ...]:
        """Return what lies beside the tree of a worktree, without what AOP placed; a folder ends with a slash."""

    def edited_tree(self, feature_id: FeatureId, tree: TreeId) -> TreeId:
        """Write the tree that the worktree holds: a tree with all edits, new and removed files, but no ignored ones."""

    def status(self, feature_id: FeatureId, tree: TreeId) -> WorktreeStatus:
        """Compare the worktree on disk with its HEAD and with the recorded tree."""

    def remove(self, feature_id: FeatureId) -> None:
        """Remove the feature's worktree; fine if it is gone. What git neither knows nor ignores goes to quarantine."""

    def scratch(self, commit: CommitId) -> AbstractContextManager[Path]:
        """Check a commit out into a worktree that is removed afterwards."""

    def users_of(self, branch: str, *, besides: FeatureId) -> tuple[str, ...]:
        """Return the names of the checkouts that are on a branch, without the worktree of a feature."""

    def checkout_behind(self, branch: str, *, old: CommitId, new: CommitId) -> str | None:
        """Say how a person brings a checkout of the moved branch up to date; None if there is none."""


class CheckoutStep(Struct, frozen=True, kw_only=True):
    """The step of a checkout from one commit of its branch to another."""

    old: CommitId
    new: CommitId
    files: int
    """How many files differ between the two."""


class GitCheckout(Protocol):
    """The person's own checkout. Only a person's own command may let it follow (C-55)."""

    def where(self, branch: str) -> str:
        """Say where the branch is checked out, if not here; empty if it is here."""

    def check(self, branch: str, to: TreeId) -> None:
        """Check that the checkout, if it is on the branch, can go to a tree and lose nothing.

        Raises: CheckoutChanged, CheckoutBusy, CheckoutNeedsFilter.
        """

    def follow(self, branch: str) -> CheckoutStep | None:
        """Bring index and files to the branch by git's two-way rule, also after a crash; None if nothing is behind.

        Raises: CheckoutChanged, CheckoutBusy, CheckoutNeedsFilter.
        """


class GitMerges(Protocol):
    """Merges of commits, without a worktree."""

    def merge(self, ours: CommitId, theirs: Proposal) -> MergedTree | ConflictedPaths:
        """Merge without a worktree (`git merge-tree --write-tree`). Raises: MergeConflict for unrelated commits."""

    def trials(self) -> AbstractContextManager[Trials]:
        """Merge for trial; nothing of it stays in the repository."""


class Git(Protocol):
    """The managed repository, in parts: a rule takes the part that it needs."""

    @property
    def objects(self) -> GitObjects:
        """Return its blobs, trees and commits."""

    @property
    def branches(self) -> GitBranches:
        """Return its branches."""

    @property
    def worktrees(self) -> GitWorktrees:
        """Return the worktrees of the features."""

    @property
    def checkout(self) -> GitCheckout:
        """Return the person's own checkout."""

    def checkout_behind(self, branch: str) -> str | None:
        """Say that the checkout is on the branch and shows older files, and how to update it; None if it does not."""

    @property
    def merges(self) -> GitMerges:
        """Return what merges commits."""
