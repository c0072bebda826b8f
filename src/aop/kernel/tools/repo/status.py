"""Tool `repo.status`: the changes of a feature, and strays in its worktree."""

from __future__ import annotations

from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.trees import ChangedFile, changed_files
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS


class RepoStatus(Struct, frozen=True, kw_only=True):
    feature_id: str
    branch: str
    tree: str
    base_commit: str
    base_branch: str
    base_head: str | None
    """The head of the base branch now; it may have moved since the feature was cut."""
    porcelain: str
    changed_files: tuple[ChangedFile, ...]
    strays: tuple[str, ...]
    """Files in the worktree that are not part of the feature's tree."""


def status(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the changes of the feature, and the strays in its worktree."""
    git = call.kernel.git
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    on_disk = git.worktrees.status(state.feature_id, state.tree)
    base_branch = call.kernel.config().policy.worktree.base_branch
    return copy_fields(
        RepoStatus,
        state,
        base_branch=base_branch,
        base_head=git.branches.head(base_branch),
        porcelain=on_disk.porcelain,
        changed_files=changed_files(git.objects.changes(git.objects.tree_of(state.base_commit), state.tree)),
        strays=on_disk.strays,
    )


TOOLS = (
    Tool(
        name="repo.status",
        summary="Show the changes of the feature, and the files in its worktree that are not part of it.",
        arguments=FeatureArguments,
        output=RepoStatus,
        roles=READERS,
        run=status,
    ),
)
