"""Tools `repo.commit` and `repo.rebase_onto_main`, off by default (AOP-189)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import CommitDisabled
from aop.core.ids import CommitId
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import LIVING, require_status, store_feature, with_status
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.merges import merge
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move, own_head, undo_move
from aop.kernel.ports.git import ConflictedPaths
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.port import Transaction


def _refuse_commits(kernel: Kernel) -> None:
    if not kernel.config().policy.commit_policy.allow_commit:
        raise CommitDisabled("The policy does not allow commits on a feature's branch.")


def _write_commit(kernel: Kernel, state: FeatureState, message: str = "") -> CommitId:
    """Write the feature's tree as a commit on its base, at the time of its last change."""
    when = datetime.fromisoformat(state.last_updated)
    text = merge.commit_message(message, state, None)
    return kernel.git.objects.commit(state.tree, [state.base_commit], text, when=when)


class CommitArguments(ChangeArguments, frozen=True, kw_only=True):
    commit_message: Annotated[str, Meta(max_length=100_000)] = ""
    """The message of the commit; without one, AOP writes it."""


class CommitResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    branch: str
    commit: str
    tree: str
    created: bool
    """False when the branch already had the tree."""


def commit(call: Call, arguments: CommitArguments) -> Outcome:
    """Commit the feature's tree on its branch, in place of an earlier commit of AOP."""
    kernel = call.kernel
    with held_feature(kernel, arguments) as state:
        _refuse_commits(kernel)
        require_status(state, *LIVING, to="be committed")
        merge.refuse_empty(kernel, state)
        merge.refuse_secret_message(arguments.commit_message, kernel.redact)
        head = own_head(kernel, state)
        if kernel.git.objects.tree_of(head) == state.tree:
            return call.commit(
                lambda tx: copy_fields(CommitResult, the_feature(tx, arguments), commit=head, created=False)
            )
        made = _write_commit(kernel, state, arguments.commit_message)

        def decide(tx: Transaction) -> Outcome:
            after = msgspec.structs.replace(unchanged_feature(tx, arguments, state), branch_commit=made)
            stored = store_feature(tx, state, after, now=kernel.now())
            tx.append(call.event("feature_committed", stored.feature_id, commit=made, tree=stored.tree))
            return copy_fields(CommitResult, stored, commit=made, created=True)

        return commit_with_move(call, BranchMove(branch=state.branch, old=head, new=made), decide)


class RebaseResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    base_commit: str
    tree: str
    moved: bool
    """False when the feature was already on the newest commit of the base branch."""


def rebase_onto_main(call: Call, arguments: ChangeArguments) -> Outcome:
    """Move the feature onto the current base branch; earlier gates and approvals no longer count."""
    kernel = call.kernel
    with held_feature(kernel, arguments, with_base=True) as state:
        name = state.feature_id
        _refuse_commits(kernel)
        require_status(state, *LIVING, to="be moved to another base")
        head, base = own_head(kernel, state), merge.base_head(kernel, kernel.config())
        if base == state.base_commit:
            return call.commit(lambda tx: copy_fields(RebaseResult, the_feature(tx, arguments), moved=False))
        after = _rebased_state(call, state, base)
        kernel.git.branches.keep(name, after.tree)

        def decide(tx: Transaction) -> Outcome:
            unchanged_feature(tx, arguments, state)
            stored = store_feature(tx, state, after, now=kernel.now())
            _renew_qa_index(tx, kernel, stored)
            tx.mark_unshown("worktree", name)
            tx.append(call.event("feature_rebased", name, old_base=state.base_commit, base=base, tree=stored.tree))
            return copy_fields(RebaseResult, stored, moved=True)

        return commit_with_move(call, BranchMove(branch=state.branch, old=head, new=base), decide)


def _rebased_state(call: Call, state: FeatureState, base: CommitId) -> FeatureState:
    """Return the feature on another base. Raises: MergeConflict, ProtectedPath."""
    git = call.kernel.git
    ours = _write_commit(call.kernel, state)
    merged = git.merges.merge(base, ours)
    if isinstance(merged, ConflictedPaths):
        raise merge.merge_conflict(git.objects, merged, state, base=base, feature_commit=ours)
    merge.refuse_submodules(git.objects, base, merged.tree)
    after = msgspec.structs.replace(
        state, base_commit=base, tree=merged.tree, gates=reset_verdicts(state.gates), branch_commit=None
    )
    if state.status is Status.READY_TO_MERGE:
        after = with_status(after, Status.QA, reason="It was moved onto a newer commit of the base branch.")
    return after


def _renew_qa_index(tx: Transaction, kernel: Kernel, state: FeatureState) -> None:
    if tx.get(QaIndex, state.feature_id) is None:
        return
    accepted = tx.get(AcceptedPlan, state.feature_id)
    diff = kernel.git.objects.diff(kernel.git.objects.tree_of(state.base_commit), state.tree, context_lines=0)
    renew_index(tx, state, diff, accepted.plan if accepted else None, kernel.config())


TOOLS = (
    Tool(
        name="repo.commit",
        summary="Commit the feature's tree on its branch; for the system only, if the policy allows it.",
        arguments=CommitArguments,
        output=CommitResult,
        roles=SYSTEM,
        run=commit,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
    Tool(
        name="repo.rebase_onto_main",
        summary="Move the feature to the newest commit of the base branch, if nothing conflicts; for the system only.",
        arguments=ChangeArguments,
        output=RebaseResult,
        roles=SYSTEM,
        run=rebase_onto_main,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
)
