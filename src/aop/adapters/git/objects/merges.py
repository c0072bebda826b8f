"""Merges of two commits, without a worktree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.own_folders import held_folder, own_folder
from aop.adapters.git.objects.trial_merges import NOT_READ, GitTrials
from aop.adapters.git.process.output import conflict_stages, object_id, split_names
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault, MergeConflict
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import ConflictedPaths, MergedTree

_FAILED = 128


class Merges:
    """Implements `aop.kernel.ports.git.GitMerges`."""

    def __init__(self, git: GitDir, *, root: Path, objects: Path, digest_size: int) -> None:
        self._git = git
        self._root = root
        self._objects = objects
        self._digest_size = digest_size

    def merge(self, ours: CommitId, theirs: CommitId) -> MergedTree | ConflictedPaths:
        """Return git's merge of two commits. Raises: MergeConflict if they have no commit in common."""
        options = ("--write-tree", "-z", "--no-messages")
        ran = self._git.run("merge-tree", *options, object_id(ours), object_id(theirs), fine=(0, 1, _FAILED))
        if ran.code == _FAILED or NOT_READ in ran.err:
            if "unrelated histories" in ran.err:
                raise MergeConflict(
                    f"`{ours[:12]}` and `{theirs[:12]}` have no commit in common.",
                    paths=[],
                    conflicts=[],
                )
            raise Fault(f"`git merge-tree` ended with {ran.code}: {self._git.clean_message(ran.err)}")
        tree, *conflicts = split_names(ran.out)
        result = TreeId(ObjectId(tree))
        return ConflictedPaths(tree=result, stages=conflict_stages(conflicts)) if ran.code else MergedTree(tree=result)

    @contextmanager
    def trials(self) -> Iterator[GitTrials]:
        """Merge for trial, in a folder that is removed afterwards."""
        with held_folder(own_folder(self._root, ".aop", "tmp")) as folder:
            yield GitTrials(self._git, folder=folder, objects=self._objects, digest_size=self._digest_size)
