"""Tool `repo.ensure_worktree`: a missing worktree is made again."""

from __future__ import annotations

from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.installation import SetupTarget
from aop.kernel.features.worktree_extras import allocate_ports, set_up_checkout
from aop.kernel.features.worktree_hold import held_feature, note_quarantined
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Transaction


class Worktree(Struct, frozen=True, kw_only=True):
    feature_id: str
    branch: str
    worktree_path: str
    base_commit: str
    tree: str


def ensure_worktree(call: Call, arguments: ChangeArguments) -> Outcome:
    """Create a missing worktree, check out the feature's tree, and set it up."""
    kernel = call.kernel
    with held_feature(kernel, arguments) as state:
        if kernel.is_shared and kernel.git.branches.head(state.branch) is None:
            # Another machine made it.
            kernel.git.branches.create(state.branch, state.base_commit)
        folder = kernel.git.worktrees.ensure(state.feature_id, state.branch)
        note_quarantined(call, state.feature_id, kernel.git.worktrees.show_tree(state.feature_id, state.tree))
        set_up_checkout(call, copy_fields(SetupTarget, state, folder=folder, logs=""), kernel.config().policy)

        def decide(tx: Transaction) -> Outcome:
            now = the_feature(tx, arguments)
            allocate_ports(tx, now.feature_id, kernel.config().policy.worktree, kernel.worktree_extras.is_free)
            tx.append(call.event("worktree_ensured", now.feature_id, tree=now.tree))
            tx.mark_unshown("worktree", now.feature_id)
            return copy_fields(Worktree, now)

        return call.commit(decide)


TOOLS = (
    Tool(
        name="repo.ensure_worktree",
        summary="Create the feature's worktree if it is missing, with exactly the feature's tree.",
        arguments=ChangeArguments,
        output=Worktree,
        roles=COORDINATORS,
        run=ensure_worktree,
        mutates=True,
        idempotent=True,
    ),
)
