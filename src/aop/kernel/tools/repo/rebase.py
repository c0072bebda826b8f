"""Tools `repo.rebase_onto_main` and `repo.follow_base`: a feature on a newer base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.ids import CommitId
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import LIVING, require_status, store_changed, with_status
from aop.kernel.features.work_requests import request_work
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.merges.base_moves import (
    BaseMove,
    conflict_reason,
    conflict_with,
    move_onto,
    set_back,
    whole_work,
)
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move, own_head, undo_move
from aop.kernel.merges.conflict_reports import ConflictReport, report_conflict
from aop.kernel.merges.merge import base_head
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.port import Transaction


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
        require_status(state, *LIVING, to="be moved to another base")
        own_head(kernel, state)
        base = base_head(kernel, kernel.config())
        if base == state.base_commit:
            return call.commit(lambda tx: copy_fields(RebaseResult, the_feature(tx, arguments), moved=False))
        move = move_onto(kernel, whole_work(state), base)
        if move.conflict is not None:
            raise move.conflict
        after = move.after
        if state.status is Status.READY_TO_MERGE:
            after = with_status(after, Status.QA, reason="It was moved onto a newer commit of the base branch.")
        return _move(call, arguments, state, after, lambda stored: copy_fields(RebaseResult, stored, moved=True))


class FollowResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    base_commit: str
    tree: str
    outcome: Literal["current", "moved", "conflict"]
    """`current`: nothing had to change; `conflict`: on the new base, without its work on the files in conflict."""
    conflict: ConflictReport | None
    """The work to be done again; null without a conflict."""


def follow_base(call: Call, arguments: ChangeArguments) -> Outcome:
    """Move the feature onto the current base branch; if it conflicts, set its work aside for a builder."""
    kernel = call.kernel
    with held_feature(kernel, arguments, with_base=True) as state:
        require_status(state, *LIVING, to="follow the base branch")
        base, whole = base_head(kernel, kernel.config()), whole_work(state)
        if _stays(kernel, state, base):
            return call.commit(lambda tx: _result(the_feature(tx, arguments), "current", None))
        own_head(kernel, state)
        move = move_onto(kernel, whole, base)
        if move.conflict is None:
            return _move(call, arguments, state, move.after, lambda stored: _result(stored, "moved", None))
        with kernel.record.read() as view:
            report = report_conflict(kernel, view, whole, base, move.conflict)
        if base == state.base_commit:
            return call.commit(lambda tx: _result(the_feature(tx, arguments), "conflict", report))
        after = _set_back(state, whole, move)
        kernel.git.branches.keep(state.feature_id, whole.tree, aside=True)
        return _move(call, arguments, state, after, lambda stored: _result(stored, "conflict", report))


def _stays(kernel: Kernel, state: FeatureState, base: CommitId) -> bool:
    """Tell whether nothing has to change: it is on the base, or is ready and merges into it without a conflict."""
    if state.set_aside is not None:
        return False
    if state.status is Status.READY_TO_MERGE:
        # The merge proves the merged tree, and an approval names the base: it need not be proven twice.
        return conflict_with(kernel, state, base) is None
    return base == state.base_commit


def _set_back(state: FeatureState, whole: FeatureState, move: BaseMove) -> FeatureState:
    why = conflict_reason(move.conflict) if move.conflict else ""
    return set_back(msgspec.structs.replace(whole, status=state.status), move, why)


def _result(state: FeatureState, outcome: str, report: ConflictReport | None) -> FollowResult:
    return copy_fields(FollowResult, state, outcome=outcome, conflict=report)


def _move(
    call: Call,
    arguments: ChangeArguments,
    state: FeatureState,
    after: FeatureState,
    answer: Callable[[FeatureState], Outcome],
) -> Outcome:
    """Move the feature's branch to its new base, and store the feature as it is there."""
    kernel, name = call.kernel, state.feature_id
    head = own_head(kernel, state)
    kernel.git.branches.keep(name, after.tree)
    kernel.send_work(after)

    def decide(tx: Transaction) -> Outcome:
        unchanged_feature(tx, arguments, state)
        facts = {"old_base": state.base_commit, "base": after.base_commit, "tree": after.tree, "old_tree": state.tree}
        tx.append(call.event("feature_rebased", name, **facts))
        stored = store_changed(tx, call, state, after)
        if state.status is Status.READY_TO_MERGE:
            # Its run has ended; the next one proves it again, or resolves the conflict.
            request_work(tx, call, name, again=True)
        _renew_qa_index(tx, kernel, stored)
        tx.mark_unshown("worktree", name)
        return answer(stored)

    return commit_with_move(call, BranchMove(branch=state.branch, old=head, new=after.base_commit), decide)


def _renew_qa_index(tx: Transaction, kernel: Kernel, state: FeatureState) -> None:
    if tx.get(QaIndex, state.feature_id) is None:
        return
    accepted = tx.get(AcceptedPlan, state.feature_id)
    diff = kernel.git.objects.diff(kernel.git.objects.tree_of(state.base_commit), state.tree, context_lines=0)
    renew_index(tx, state, diff, accepted.plan if accepted else None, kernel.config())


TOOLS = (
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
    Tool(
        name="repo.follow_base",
        summary="Move the feature to the newest commit of the base branch; set work aside that conflicts.",
        arguments=ChangeArguments,
        output=FollowResult,
        roles=SYSTEM,
        run=follow_base,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
)
