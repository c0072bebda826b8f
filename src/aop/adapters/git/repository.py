"""The managed repository: implements `aop.kernel.ports.git.Git`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from aop.adapters.files.own_folders import Quarantine, abandoned_folders, held_folder, locked, own_folder, remove_folder
from aop.adapters.git.objects.loose import LooseObjects
from aop.adapters.git.objects.merges import merged
from aop.adapters.git.objects.store import PLAIN_DIFF, Objects
from aop.adapters.git.objects.trees import differences, side_at, tree_change
from aop.adapters.git.objects.trial_merges import GitTrials
from aop.adapters.git.objects.write_ahead_log import ObjectLog
from aop.adapters.git.process.authors import Author, author_in, git_date
from aop.adapters.git.process.discovery import find_checkout
from aop.adapters.git.process.neutral_dir import neutral_git_dir
from aop.adapters.git.process.output import (
    bytes_of,
    is_plain_path,
    object_id,
    porcelain,
    split_names,
    text_of,
    tree_entries,
)
from aop.adapters.git.process.program import GitDir, GitProgram
from aop.adapters.git.refs.branches import Refs, branch_ref
from aop.adapters.git.worktrees.excludes import exclude_runtime_files
from aop.adapters.git.worktrees.registrations import Worktrees, how_to_follow
from aop.adapters.machine.clock import SystemClock
from aop.core import ids
from aop.core.errors import Fault, InvalidConfiguration, WorktreeMissing
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId
from aop.kernel.ports.git import (
    ConflictedPaths,
    FileContent,
    FileMode,
    MergedTree,
    TreeChange,
    TreeEntry,
    WorktreeStatus,
)

if TYPE_CHECKING:
    # What writes files and indexes is imported by the calls that do.
    from aop.adapters.git.index.format import KnownIndex
    from aop.adapters.git.worktrees.checkout import Checkout
    from aop.adapters.git.worktrees.watch import Watches

DIGEST_SIZES = {"sha1": 20, "sha256": 32}


class Repository:
    """One repository with a work tree. Nothing here writes the user's files, index, HEAD or config."""

    def __init__(
        self, program: GitProgram, *, root: Path, git_dir: Path, object_format: str, worktrees: str = ".worktrees"
    ) -> None:
        self._root = root
        self._git_dir = git_dir
        self._digest_size = DIGEST_SIZES[object_format]
        self._worktrees_folder = worktrees
        # Refs and single objects are read here. Whatever looks into files runs in the neutral git directory.
        self._git = GitDir(program, git_dir=git_dir, work_tree=root, environment={}, root=root)
        self._made_neutral = cache(
            partial(neutral_git_dir, program, root=root, common=git_dir, object_format=object_format)
        )
        self._loose = LooseObjects(git_dir / "objects", ObjectLog(root, SystemClock().boot_id))
        self._objects = Objects(self._git, self._made_neutral, self._loose)
        self._refs = Refs(self._git, root=root, common=git_dir)
        self._worktrees = Worktrees(self._git, root=root, common=git_dir)
        self._seen_indexes: dict[Path, KnownIndex] = {}

    @property
    def root(self) -> Path:
        """Return the top folder of the user's own checkout."""
        return self._root

    @property
    def git_dir(self) -> Path:
        """Return the git directory that all worktrees share."""
        return self._git_dir

    def close(self) -> None:
        """End the git processes that stay; what is asked for later starts them again."""
        self._objects.close()
        self._refs.close()
        if "_watches" in vars(self):
            self._watches.close()

    # --- objects -------------------------------------------------------------------------------------

    def tree_of(self, commit: CommitId) -> TreeId:
        return self._objects.tree_of(commit)

    def is_ancestor(self, older: CommitId, newer: CommitId) -> bool:
        return self._objects.is_ancestor(older, newer)

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        if not is_plain_path(path):
            return None
        side = side_at(self._objects.tree, object_id(tree), bytes_of(path))
        return None if side is None else TreeEntry(path=path, mode=side[0], oid=side[1])

    def entries(self, tree: TreeId) -> tuple[TreeEntry, ...]:
        return tree_entries(self._git.run("ls-tree", "-r", "-z", "--full-tree", object_id(tree)).out)

    def names(self, tree: TreeId, folder: str) -> tuple[str, ...]:
        listed = self._folder(tree, folder)
        return () if listed is None else tuple(map(text_of, self._objects.tree(listed)))

    def files_with(self, tree: TreeId, text: str) -> frozenset[str]:
        options = ("-l", "-z", "-F", "-a", "--full-name", "--no-color", "-e", text)
        found = self._neutral.run("grep", *options, object_id(tree), "--", fine=(0, 1)).out
        return frozenset(name.removeprefix(f"{tree}:") for name in split_names(found))

    def blob(self, oid: ObjectId) -> bytes:
        return self._objects.blob(oid)

    def blob_size(self, oid: ObjectId) -> int:
        return self._objects.blob_size(oid)

    def apply_to_tree(self, tree: TreeId, patch: bytes, *, paths: AbstractSet[str]) -> TreeId:
        from aop.adapters.git.tree_builder import applied

        return applied(self._neutral, self._objects, tree, patch, paths=paths, tmp=self._own("tmp"))

    def tree_with(self, tree: TreeId, files: Mapping[str, FileContent | None]) -> TreeId:
        from aop.adapters.git.tree_builder import with_files

        return with_files(self._objects, tree, files)

    def changes(self, old: TreeId, new: TreeId) -> tuple[TreeChange, ...]:
        found = differences(self._objects.tree, object_id(old), object_id(new))
        return tuple(sorted((tree_change(each) for each in found), key=lambda change: change.path))

    def diff(self, old: TreeId, new: TreeId, *, context_lines: int = 3, paths: Sequence[str] = ()) -> bytes:
        if context_lines == 0 and not paths:
            return self._objects.bare_diff(old, new)
        options = ("-p", f"-U{int(context_lines)}", "--full-index", *PLAIN_DIFF)
        return self._neutral.run("diff-tree", *options, object_id(old), object_id(new), "--", *paths).out

    def diff_stat(self, old: TreeId, new: TreeId, *, paths: Sequence[str] = ()) -> str:
        arguments = ("diff-tree", "--stat", *PLAIN_DIFF, object_id(old), object_id(new), "--", *paths)
        return self._neutral.run(*arguments).out.decode("utf-8", "replace")

    # --- commits and branches ------------------------------------------------------------------------

    def commit(self, tree: TreeId, parents: Sequence[CommitId], message: str, *, when: datetime) -> CommitId:
        self._loose.flush()  # A branch may soon be at this commit, for readers who know nothing of AOP.
        environment = {"GIT_AUTHOR_DATE": git_date(when), "GIT_COMMITTER_DATE": git_date(when)}
        if self._author is not None:
            environment |= {"GIT_AUTHOR_NAME": self._author.name, "GIT_AUTHOR_EMAIL": self._author.email}
        arguments = [word for parent in parents for word in ("-p", object_id(parent))]
        ran = self._neutral.run(
            "commit-tree", *arguments, "-F", "-", object_id(tree), stdin=message.encode(), environment=environment
        )
        return CommitId(ObjectId(ran.out.decode("ascii").strip()))

    def merge(self, ours: CommitId, theirs: CommitId) -> MergedTree | ConflictedPaths:
        return merged(self._neutral, ours, theirs)

    @contextmanager
    def trial_merges(self) -> Iterator[GitTrials]:
        with held_folder(self._own("tmp")) as folder:
            yield GitTrials(
                self._neutral, folder=folder, objects=self._git_dir / "objects", digest_size=self._digest_size
            )

    def branch_head(self, branch: str) -> CommitId | None:
        return self._refs.branch_head(branch)

    def create_branch(self, branch: str, at: CommitId) -> None:
        self._refs.create_branch(branch, at)

    def move_branch(self, branch: str, *, to: CommitId, old: CommitId) -> bool:
        self._loose.flush_names()
        return self._refs.move_branch(branch, to=to, old=old)

    def keep(self, feature_id: FeatureId, tree: TreeId, *, aside: bool = False) -> None:
        self._refs.keep(ids.feature_id(feature_id), tree, aside=aside)

    def forget(self, feature_id: FeatureId) -> None:
        self._refs.forget(ids.feature_id(feature_id))

    def delete_branch(self, branch: str, *, at: CommitId) -> bool:
        return self._refs.delete_branch(branch, at=at)

    def users_of(self, branch: str, *, besides: FeatureId) -> tuple[str, ...]:
        own = self.worktree_path(besides)
        on_branch = (checkout for checkout in self._worktrees.listed() if checkout.ref == branch_ref(branch))
        return tuple(checkout.folder.name for checkout in on_branch if checkout.folder != own)

    def checkout_behind(self, branch: str, *, old: CommitId, new: CommitId) -> str | None:
        ours = (self._root / self._worktrees_folder, self._root / ".aop")
        behind = [
            checkout.folder
            for checkout in self._worktrees.listed()
            if checkout.ref == branch_ref(branch) and not any(map(checkout.folder.is_relative_to, ours))
        ]
        if old == new or not behind:
            return None
        places = ["the repository's root" if folder == self._root else f"`{folder.name}`" for folder in behind]
        return " ".join(how_to_follow(place, branch, object_id(old), object_id(new)) for place in places)

    # --- worktrees -----------------------------------------------------------------------------------

    def worktree_path(self, feature_id: FeatureId) -> Path:
        return self._root / self._worktrees_folder / ids.feature_id(feature_id)

    def ensure_worktree(self, feature_id: FeatureId, branch: str) -> Path:
        folder = self._made_worktrees_folder() / ids.feature_id(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        with locked(self._own("locks") / f"git-{feature_id}"):
            registration = self._worktrees.likely_registration(folder)
            if registration is None:
                # Git would look for a branch of that name at a remote, and write what it finds into the config.
                if self.branch_head(branch) is None:
                    raise Fault(f"There is no branch `{branch}` for the worktree of `{feature_id}`.")
                registration = self._worktrees.add_on_branch(folder, branch, quarantine)
            self._worktrees.restore(folder, registration, quarantine)
            self._worktrees.point_head(registration, branch_ref(branch))
            if not (registration / "index").exists():
                self._checkout(folder, registration).show(self._tree_at_head(registration), quarantine)
        return folder

    def ensure_detached_worktree(self, feature_id: FeatureId, commit: CommitId) -> Path:
        folder = self._made_worktrees_folder() / ids.feature_id(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        with locked(self._own("locks") / f"git-{feature_id}"):
            registration = self._worktrees.ensure_detached(folder, object_id(commit), quarantine)
            self._worktrees.restore(folder, registration, quarantine)
            if not (registration / "index").exists():
                self._checkout(folder, registration).show(self._tree_at_head(registration), quarantine)
        return folder

    def worktree_head(self, feature_id: FeatureId) -> str | None:
        return self._worktrees.head_of(self.worktree_path(feature_id))

    def follow_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        checkout, was_whole = self._restored(feature_id)
        quarantine = Quarantine(self._root, feature_id)
        return checkout.follow(tree, quarantine) if was_whole else checkout.show(tree, quarantine)

    def show_tree(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restored(feature_id)[0].show(tree, Quarantine(self._root, feature_id))

    def clear_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restored(feature_id)[0].clear_strays(tree, Quarantine(self._root, feature_id))

    def discard_strays(self, feature_id: FeatureId, tree: TreeId) -> tuple[str, ...]:
        return self._restored(feature_id)[0].discard_strays(tree, Quarantine(self._root, feature_id))

    def remove_worktree(self, feature_id: FeatureId) -> None:
        folder = self.worktree_path(feature_id)
        with locked(self._own("locks") / f"git-{feature_id}"):
            registration = self._worktrees.registration(folder)
            if os.path.lexists(folder):
                quarantine = Quarantine(self._root, feature_id)
                if registration is None or folder.is_symlink() or not folder.is_dir():
                    quarantine.take(folder.parent, folder.name)
                else:
                    self._checkout(folder, registration).rescue(quarantine)
                remove_folder(folder)
            # Last: while it is there, a removal that was killed knows what of the folder was AOP's.
            self._worktrees.forget(folder)

    def status(self, feature_id: FeatureId, tree: TreeId) -> WorktreeStatus:
        folder = self.worktree_path(feature_id)
        registration = self._registration(folder)
        # A folder that somebody deleted is compared as what it is: empty.
        there = folder if folder.is_dir() and not folder.is_symlink() else self._neutral.work_tree
        drift, untracked = self._checkout(there, registration).compare(tree)
        accepted = self.changes(self._tree_at_head(registration), tree)
        strays = sorted({*untracked, *(change.path for change in drift)})
        return WorktreeStatus(porcelain=porcelain(accepted, drift, untracked), strays=tuple(strays))

    @contextmanager
    def scratch_checkout(self, commit: CommitId) -> Iterator[Path]:
        tree = self.tree_of(commit)
        with held_folder(self._own("scratch")) as folder:
            try:
                registration = self._worktrees.add_detached(folder, commit)
                self._checkout(folder, registration).show(tree, Quarantine(self._root, "scratch"))
                yield folder
            finally:
                self._worktrees.forget(folder)

    # --- what AOP leaves in the repository -----------------------------------------------------------

    def sweep_leftovers(self) -> None:
        """Remove what killed processes left behind, and write the objects again that a power cut has taken."""
        self._loose.restore()
        self._refs.drop_stale_locks()
        private = self._root / ".aop"
        for folder in abandoned_folders(private / "scratch"):
            self._worktrees.forget(folder)
            remove_folder(folder)
        for parent in ("tmp", "run"):
            for folder in abandoned_folders(private / parent):
                remove_folder(folder)
        self._worktrees.forget_gone(private / "scratch")

    def exclude_runtime_files(self) -> None:
        """Keep the files that AOP writes out of the user's `git status`, through `info/exclude`."""
        exclude_runtime_files(self._git_dir / "info" / "exclude", worktrees=self._worktrees_folder)

    # --- parts ---------------------------------------------------------------------------------------

    @property
    def _neutral(self) -> GitDir:
        return self._made_neutral()

    @cached_property
    def _author(self) -> Author | None:
        return author_in(self._git)

    @cached_property
    def _watches(self) -> Watches:
        from aop.adapters.git.worktrees.watch import Watches

        return Watches()

    def _own(self, name: str) -> Path:
        return own_folder(self._root, ".aop", name)

    def _folder(self, tree: TreeId, path: str) -> str | None:
        if not path:
            return object_id(tree)
        entry = self.entry(tree, path)
        return entry.oid if entry is not None and entry.mode is FileMode.TREE else None

    def _made_worktrees_folder(self) -> Path:
        return own_folder(self._root, *self._worktrees_folder.split("/"))

    def _registration(self, folder: Path) -> Path:
        registration = self._worktrees.registration(folder)
        if registration is None:
            raise WorktreeMissing(f"Git knows no worktree of `{folder.name}` any more.", feature_id=folder.name)
        return registration

    def _restored(self, feature_id: FeatureId) -> tuple[Checkout, bool]:
        """Return the worktree, and whether it was there."""
        folder = self._made_worktrees_folder() / ids.feature_id(feature_id)
        registration = self._registration(folder)
        was_whole = self._worktrees.restore(folder, registration, Quarantine(self._root, feature_id))
        return self._checkout(folder, registration), was_whole

    def _checkout(self, folder: Path, registration: Path) -> Checkout:
        from aop.adapters.git.index.worktree_index import WorktreeIndex
        from aop.adapters.git.worktrees.checkout import Checkout

        index = WorktreeIndex(registration / "index", self._seen_indexes, digest_size=self._digest_size)
        return Checkout(
            self._neutral,
            self._objects,
            folder=folder,
            index=index,
            tmp=self._own("tmp"),
            watches=self._watches,
        )

    def _tree_at_head(self, registration: Path) -> TreeId:
        return _tree_id(self._worktrees.run_in(registration, "rev-parse", "--verify", "HEAD^{tree}"))


def open_repository(path: Path, environ: Mapping[str, str], *, worktrees: str = ".worktrees") -> Repository:
    """Open the repository that a folder lies in; from a linked worktree, the one that it belongs to.

    Raises: NotARepository, InvalidConfiguration if the worktrees would not lie inside the repository.
    """
    if not is_plain_path(worktrees):
        raise InvalidConfiguration(
            f"The worktrees must lie in a folder of the repository, and {worktrees[:80]!a} does not name one."
        )
    program = GitProgram(environ)
    found = find_checkout(program, path)
    return Repository(
        program, root=found.root, git_dir=found.git_dir, object_format=found.object_format, worktrees=worktrees
    )


def _tree_id(out: bytes) -> TreeId:
    return TreeId(ObjectId(out.decode("ascii").strip()))
