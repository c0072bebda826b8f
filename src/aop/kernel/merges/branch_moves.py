"""Branch moves: a branch moves together with a decision, or neither happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from aop.core.errors import FeatureBranchMoved, Json, Refusal
from aop.core.ids import CommitId
from aop.kernel.features.lifecycle import refuse_build
from aop.kernel.gateway.calls import Call, Kernel, Outcome
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Transaction


class BranchMove(Struct, frozen=True, kw_only=True):
    """The move of one branch, with enough to undo it."""

    branch: str
    old: CommitId | None
    """None when the move creates the branch."""
    new: CommitId


def commit_with_move(call: Call, move: BranchMove, decide: Callable[[Transaction], Outcome]) -> Outcome:
    """Move a branch and commit the decision, or neither. Raises: FeatureBranchMoved, and what the decision refuses."""
    call.intend(msgspec.to_builtins(move))
    move_branch(call.kernel, move)
    try:
        return call.commit(decide)
    except Refusal:
        _undo(call.kernel, move)
        raise


def move_branch(kernel: Kernel, move: BranchMove) -> None:
    """Create a branch, or move it from the commit where it was. Raises: FeatureBranchMoved."""
    if move.old is None:
        kernel.git.branches.create(move.branch, move.new)
    elif not kernel.git.branches.move(move.branch, to=move.new, old=move.old):
        raise FeatureBranchMoved(f"The branch `{move.branch}` moved just now.", branch=move.branch)


def undo_move(call: Call, intent: Mapping[str, Json]) -> Outcome | None:
    """Undo the move of a call that died before its decision was committed."""
    _undo(call.kernel, msgspec.convert(intent, BranchMove))
    return None


def _undo(kernel: Kernel, move: BranchMove) -> None:
    if move.old is None:
        kernel.git.branches.delete(move.branch, at=move.new)
    else:
        kernel.git.branches.move(move.branch, to=move.old, old=move.new)


def own_head(kernel: Kernel, state: FeatureState) -> CommitId:
    """Return the head of the feature's branch, which AOP itself put there. Raises: FeatureBranchMoved, NotForABuild."""
    refuse_build(state, "its commits are never replaced")
    head = kernel.git.branches.head(state.branch)
    if head is None:
        raise FeatureBranchMoved(f"The branch `{state.branch}` is gone.", branch=state.branch)
    # A merge that died between the two branches left a commit of this tree on the feature's.
    is_own = head in (state.base_commit, state.branch_commit) or kernel.git.objects.tree_of(head) == state.tree
    if not is_own:
        raise FeatureBranchMoved(
            f"The branch `{state.branch}` has commits that AOP did not make.", branch=state.branch, head=head
        )
    return head
