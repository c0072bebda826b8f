"""Merges two commits without a worktree."""

from __future__ import annotations

from aop.adapters.git.objects.trial_merges import NOT_READ
from aop.adapters.git.process.output import conflict_stages, object_id, split_names
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault, MergeConflict
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import ConflictedPaths, MergedTree

_FAILED = 128


def merged(git: GitDir, ours: CommitId, theirs: CommitId) -> MergedTree | ConflictedPaths:
    """Return what `git merge-tree --write-tree` makes of two commits.

    Raises: MergeConflict if they have no commit in common.
    """
    options = ("--write-tree", "-z", "--no-messages")
    ran = git.run("merge-tree", *options, object_id(ours), object_id(theirs), fine=(0, 1, _FAILED))
    if ran.code == _FAILED or NOT_READ in ran.err:
        if "unrelated histories" in ran.err:
            raise MergeConflict(
                f"`{ours[:12]}` and `{theirs[:12]}` have no commit in common.",
                hint="Make the feature anew, from the base branch as it is now.",
                paths=[],
                conflicts=[],
            )
        raise Fault(f"`git merge-tree` ended with {ran.code}: {git.cleaned(ran.err)}")
    tree, *conflicts = split_names(ran.out)
    result = TreeId(ObjectId(tree))
    return ConflictedPaths(tree=result, stages=conflict_stages(conflicts)) if ran.code else MergedTree(tree=result)
