"""Tool `feature.begin_anew`: a fresh start once its prerequisites are merged."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidStatusTransition
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import LIVING, NOT_RUN, change_status, require_status
from aop.kernel.features.worktree_hold import held_feature, unchanged_feature
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move, own_head, undo_move
from aop.kernel.merges.merge import base_head
from aop.kernel.plans.prerequisites import still_waited_for
from aop.kernel.record.documents.features import Collisions, FeatureEvidence, FeatureState, HeldLocks, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.port import Snapshot, Transaction


class BeginAnewResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    base_commit: str
    tree: str
    begun: bool
    """False when it waited for nothing, and nothing changed."""


class BeginAnewArguments(ChangeArguments, frozen=True, kw_only=True):
    discard: bool = False
    """Whether a feature that waits for nothing starts over too, because a person said so."""


def begin_anew(call: Call, arguments: BeginAnewArguments) -> Outcome:
    """Restart a feature on the current base branch, without a plan; its tree before stays under a ref."""
    kernel = call.kernel
    with held_feature(kernel, arguments, with_base=True) as state:
        if not state.waits_for and not arguments.discard:
            return call.commit(lambda tx: copy_fields(BeginAnewResult, the_feature(tx, arguments), begun=False))
        require_status(state, *LIVING, to="start over")
        with kernel.record.read() as view:
            _refuse_too_early(view, state)
        head, base = own_head(kernel, state), base_head(kernel, kernel.config())
        after = msgspec.structs.replace(
            state,
            status=Status.PLANNING,
            status_reason=_reason(state),
            blocked_from=None,
            waits_for=(),
            base_commit=base,
            tree=kernel.git.objects.tree_of(base),
            gates={"plan": Verdict.NA, **NOT_RUN},
            locks=HeldLocks(),
            collisions=Collisions(),
            evidence=FeatureEvidence(),
            branch_commit=None,
            set_aside=None,
        )
        if state.tree != kernel.git.objects.tree_of(state.base_commit):
            kernel.git.branches.keep(state.feature_id, state.tree, aside=True)
        kernel.send_work(after)

        def decide(tx: Transaction) -> Outcome:
            _refuse_too_early(tx, unchanged_feature(tx, arguments, state))
            return copy_fields(BeginAnewResult, _restart(tx, call, state, after), begun=True)

        return commit_with_move(call, BranchMove(branch=state.branch, old=head, new=base), decide)


def _reason(state: FeatureState) -> str:
    why = "Its prerequisites are merged" if state.waits_for else "A person said so"
    return f"{why}: it starts again on the new base."


def _refuse_too_early(view: Snapshot, state: FeatureState) -> None:
    left = still_waited_for(view, state)
    if left:
        named = " and ".join(f"`{name}`" for name in left)
        raise InvalidStatusTransition(
            f"The feature `{state.feature_id}` still waits for {named}.",
            hint="First review, approve and merge what it waits for.",
            feature_id=state.feature_id,
            status=state.status,
            waits_for=list(left),
        )


def _restart(tx: Transaction, call: Call, before: FeatureState, after: FeatureState) -> FeatureState:
    name = before.feature_id
    for shape in (AcceptedPlan, ObligationLedger, QaIndex):
        tx.remove(shape, name)
    tx.mark_unshown("worktree", name)
    facts = {"old_base": before.base_commit, "base": after.base_commit, "tree": after.tree, "old_tree": before.tree}
    tx.append(call.event("feature_rebased", name, **facts))
    return change_status(tx, call, before, after)


TOOLS = (
    Tool(
        name="feature.begin_anew",
        summary="Restart a feature on the base branch once the prerequisites that it waits for are merged.",
        arguments=BeginAnewArguments,
        output=BeginAnewResult,
        roles=SYSTEM,
        run=begin_anew,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
)
