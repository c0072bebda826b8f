"""Tool `repo.commit`: a feature's tree as a commit, off by default (AOP-189)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import CommitDisabled
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import LIVING, require_status, store_feature
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.merges import merge
from aop.kernel.merges.base_moves import write_commit
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move, own_head, undo_move
from aop.kernel.record.port import Transaction


def _refuse_commits(kernel: Kernel) -> None:
    if not kernel.config().policy.commit_policy.allow_commit:
        raise CommitDisabled("The policy does not allow commits on a feature's branch.")


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
        made = write_commit(kernel, state, arguments.commit_message)

        def decide(tx: Transaction) -> Outcome:
            after = msgspec.structs.replace(unchanged_feature(tx, arguments, state), branch_commit=made)
            stored = store_feature(tx, state, after, now=kernel.now())
            tx.append(call.event("feature_committed", stored.feature_id, commit=made, tree=stored.tree))
            return copy_fields(CommitResult, stored, commit=made, created=True)

        return commit_with_move(call, BranchMove(branch=state.branch, old=head, new=made), decide)


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
)
