"""Merges of two commits, without a worktree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.own_folders import held_folder, own_folder
from aop.adapters.git.objects.loose import LooseObjects, id_of
from aop.adapters.git.objects.store import Objects
from aop.adapters.git.objects.trees import new_objects
from aop.adapters.git.objects.trial_merges import GitTrials, merge_pair, trial_commit
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault, MergeConflict
from aop.core.ids import CommitId
from aop.kernel.ports.git import ConflictedPaths, MergedTree, Proposal, TrialMerge

_KEPT = 16
_OBJECT_ID = re.compile(r"\b[0-9a-f]{40,64}\b")


class Merges:
    """Implements `aop.kernel.ports.git.GitMerges`."""

    def __init__(
        self, git: GitDir, objects: Objects, loose: LooseObjects, *, root: Path, folder: Path, digest_size: int
    ) -> None:
        self._git = git
        self._objects = objects
        self._loose = loose
        self._root = root
        self._folder = folder
        self._digest_size = digest_size
        self._results: dict[tuple[CommitId, Proposal], MergedTree | ConflictedPaths] = {}

    def merge(self, ours: CommitId, theirs: Proposal) -> MergedTree | ConflictedPaths:
        """Return git's merge of two commits. Raises: MergeConflict if they have no commit in common."""
        asked = (ours, theirs)
        known = self._results.get(asked)
        # No branch names its objects: git may have collected them.
        if known is None or not self._loose.has(known.tree):
            known = self._merge(*asked)
            if len(self._results) >= _KEPT:
                self._results.clear()
            self._results[asked] = known
        return known

    def _merge(self, ours: CommitId, theirs: Proposal) -> MergedTree | ConflictedPaths:
        between = (ours, self._commit(theirs))
        merged = self._durably_merged(*between)
        if merged.tree is None:
            both = " and ".join(f"`{commit[:12]}`" for commit in between)
            raise MergeConflict(f"{both} have no commit in common.", paths=[], conflicts=[])
        if merged.is_clean:
            return MergedTree(tree=merged.tree)
        return ConflictedPaths(tree=merged.tree, stages=merged.stages, between=between)

    def _commit(self, theirs: Proposal) -> CommitId:
        if theirs.tree is None:
            return theirs.commit
        whole = trial_commit(theirs.tree, theirs.commit)
        made = CommitId(id_of(whole, digest_size=self._digest_size))
        self._loose.write_for_now({made: whole})
        return made

    def _durably_merged(self, ours: CommitId, theirs: CommitId) -> TrialMerge:
        """Let git merge, and flush all that it wrote at once: git would flush each object alone, and no folder."""
        both = [self._objects.tree_of(each) for each in (ours, theirs)]
        while True:
            try:
                merged = merge_pair(self._git, ours, theirs)
            except Fault as fault:
                if not self._loose.remove_empty(_OBJECT_ID.findall(str(fault))):
                    raise
                continue
            if merged.tree is None or self._loose.keep(new_objects(self._objects.tree, merged.tree, both)):
                return merged

    @contextmanager
    def trials(self) -> Iterator[GitTrials]:
        """Merge for trial, in a folder that is removed afterwards."""
        with held_folder(own_folder(self._root, ".aop", "tmp")) as folder:
            yield GitTrials(self._git, folder=folder, objects=self._folder, digest_size=self._digest_size)
