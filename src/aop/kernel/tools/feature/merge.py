"""Tools `feature.approve`, `feature.ready_to_merge` and `repo.merge`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import ApprovalInvalid, Json, MergeDisabled, Refusal
from aop.core.ids import ApprovalId, CommitId, FeatureId
from aop.core.structs import copy_fields
from aop.kernel.config.policy import MergeStrategy
from aop.kernel.features.lifecycle import require_status, store_feature, with_status
from aop.kernel.features.worktree_hold import held_feature
from aop.kernel.gates.base.base_verdicts import store_merged_verdicts
from aop.kernel.gates.base.baselines import store_baseline
from aop.kernel.gates.gate_runs import evidence_pointers, gate_failure, record_run
from aop.kernel.gates.steps import with_verdict
from aop.kernel.gateway.calls import (
    Answer,
    Call,
    ChangeArguments,
    Kernel,
    Outcome,
    Tool,
    committed,
    feature_named,
    the_feature,
)
from aop.kernel.gateway.role_sets import COORDINATORS, SYSTEM
from aop.kernel.locks.grants import renew
from aop.kernel.locks.leases import read_clock
from aop.kernel.merges.approval_signatures import check_signature, refuse_repeated
from aop.kernel.merges.approval_tokens import token_for
from aop.kernel.merges.base_moves import conflict_before_merge, send_back
from aop.kernel.merges.merge import (
    MergedBaseline,
    MergeReadiness,
    PreparedMerge,
    check_approvable,
    check_ready,
    move_branches,
    prepare_merge,
    refuse_merge_of_build,
    run_merge_gates,
)
from aop.kernel.plans.needed_locks import check_unbroken
from aop.kernel.plans.waiting_queue import release_for_status
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.base import digest_of, revise
from aop.kernel.record.documents.features import FeatureState, HeldLocks, MergeEvidence, Status
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.port import Transaction


class ApproveArguments(ChangeArguments, frozen=True, kw_only=True):
    tree: str
    """The tree that the person reviewed; if the feature has another one by now, nothing is approved."""
    base: str
    """The head of the base branch at the time of the review."""
    signature: Annotated[str, Meta(max_length=20_000)] = ""
    """The signature of a signer of the policy, made by `ssh-keygen -Y sign`; `aop approve` makes it."""
    signed_at: Annotated[str, Meta(max_length=40)] = ""
    """The time that the signature covers."""


class GrantedApproval(Struct, frozen=True, kw_only=True):
    feature_id: str
    approval_id: str
    tree: str
    base: str
    gate_runs: Mapping[str, str]
    approved_by: str
    approved_at: str
    signer: str = ""
    """The allowed signer who signed it; empty where the policy names none."""
    token: str = ""
    """Permits one merge of exactly this tree onto exactly this base. It is in no log and in no record."""


@committed
def approve(call: Call, arguments: ApproveArguments, tx: Transaction) -> Outcome:
    """Record a person's approval of a proven tree."""
    kernel, config = call.kernel, call.kernel.config()
    state = the_feature(tx, arguments)
    refuse_merge_of_build(state)
    conflict = conflict_before_merge(kernel, state)
    if conflict is not None:
        return send_back(tx, call, state, conflict)
    runs, base = check_approvable(kernel, tx, state)
    if (arguments.tree, arguments.base) != (state.tree, base):
        raise ApprovalInvalid(
            f"The feature `{state.feature_id}` or its base changed since it was shown.",
            feature_id=state.feature_id,
            tree=state.tree,
            base=base,
        )
    approval = Approval(
        version=1,
        approval_id=ApprovalId(kernel.new_id("approval")),
        feature_id=state.feature_id,
        tree=state.tree,
        base=base,
        gate_runs={mode: run.run_id for mode, run in runs.items()},
        config_hash=config.hash,
        approved_by=call.principal.actor,
        approved_at=kernel.now(),
        signature=arguments.signature,
        signed_at=arguments.signed_at,
    )
    refuse_repeated(tx, approval)
    approval = msgspec.structs.replace(approval, signer=check_signature(kernel, approval))
    tx.put(approval, approval.approval_id)
    tx.mark_unshown("feature", state.feature_id)
    tx.append(
        call.event(
            "approval_granted",
            state.feature_id,
            approval_id=approval.approval_id,
            tree=state.tree,
            base=base,
            **({"signer": approval.signer, "signature": approval.signature} if approval.signer else {}),
        )
    )
    return copy_fields(GrantedApproval, approval)


def with_token(kernel: Kernel, granted: GrantedApproval) -> GrantedApproval:
    """Add the token to the answer; the record holds only the approval it is made from."""
    with kernel.record.read() as view:
        approval = view.get(Approval, granted.approval_id)
    return granted if approval is None else msgspec.structs.replace(granted, token=token_for(approval, kernel.signer))


class MergeArguments(ChangeArguments, frozen=True, kw_only=True):
    commit_message: Annotated[str, Meta(max_length=100_000)] = ""
    merge_strategy: MergeStrategy = MergeStrategy.MERGE_COMMIT
    user_approval_token: str | None = None
    checkout: Literal["follow", "leave"] = "leave"
    """With `follow`, a merge is refused if a checkout of the base branch could not be updated without losing changes.
    `repo.sync` updates it."""


class MergeResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    commit: str
    merge_commit: str
    base_branch: str
    strategy: str
    gates: Mapping[str, str]
    notice: str = ""
    """A next step for a person, such as updating a checkout of the base branch."""


class MergeIntent(Struct, frozen=True, kw_only=True):
    """The planned change of refs; enough to finish the merge, or to see that it never happened."""

    feature_id: FeatureId
    prepared: PreparedMerge
    gate_run: GateRun
    tests: MergedBaseline | None = None
    """None without a test report."""


def ready_to_merge(call: Call, arguments: MergeArguments) -> Outcome:
    """Merge the approved tree into the base branch, after proving the merged tree."""
    kernel = call.kernel
    with held_feature(kernel, arguments, with_base=True) as state:
        refuse_merge_of_build(state)
        conflict = conflict_before_merge(kernel, state)
        if conflict is not None:
            return call.commit(lambda tx: send_back(tx, call, the_feature(tx, arguments), conflict))
        with kernel.record.read() as view:
            ready = check_ready(kernel, view, state, arguments.user_approval_token, arguments.merge_strategy)
        prepared = prepare_merge(call, ready, arguments.merge_strategy, arguments.commit_message)
        _check_checkout(kernel, arguments, prepared)
        run, tests = run_merge_gates(call, ready, prepared)
        if run.verdict is not Verdict.PASS:
            return call.commit(lambda tx: _record_failure(tx, call, arguments, run))
        _check_checkout(kernel, arguments, prepared)
        intent = MergeIntent(feature_id=state.feature_id, prepared=prepared, gate_run=run, tests=tests)
        call.intend(msgspec.to_builtins(intent))
        _spend_approval(call, ready)
        try:
            move_branches(kernel, state, prepared)
        except Refusal:
            # After a refusal no branch has moved. After a fault that is unknown, and `settle_merge` looks.
            _unspend_approval(call, prepared.approval_id)
            raise
        return _finish_merge(call, intent)


def _check_checkout(kernel: Kernel, arguments: MergeArguments, prepared: PreparedMerge) -> None:
    """Refuse a merge that would strand a checkout; the gates take time, so before and after them."""
    if arguments.checkout == "follow":
        kernel.git.checkout.check(prepared.base_branch, kernel.git.objects.tree_of(prepared.merge_commit))


def _record_failure(tx: Transaction, call: Call, arguments: MergeArguments, run: GateRun) -> Outcome:
    """Record the verdict on the merged tree, so that a later pass counts as flaky."""
    state = the_feature(tx, arguments)
    record_run(tx, call, state, with_verdict(state, run), run)
    return gate_failure(run)


def _spend_approval(call: Call, ready: MergeReadiness) -> None:
    """Check again what may have changed while the gates ran, and spend the approval before the branch moves.

    Of two merges with one approval, one gets no further. The leases are renewed, so that none ends before the move.
    """
    name, now = ready.state.feature_id, read_clock(call.kernel.clock)
    with call.kernel.record.write() as tx:
        state = feature_named(tx, name)
        require_status(state, Status.READY_TO_MERGE, to="be merged")
        check_unbroken(tx, state, ready.locks, now)
        renew(tx, call, name, ready.locks, now)
        if ready.approval is not None:
            _mark_spent(tx, call, ready.approval)


def _mark_spent(tx: Transaction, call: Call, approval: Approval) -> None:
    current = tx.get(Approval, approval.approval_id)
    if current is None or current.spent_by is not None:
        raise _void_approval(approval, "it was used already")
    if current.withdrawn:
        raise _void_approval(approval, "the feature was sent back after it")
    tx.put(revise(current, spent_by=call.operation()), approval.approval_id)


def _void_approval(approval: Approval, why: str) -> ApprovalInvalid:
    name = approval.feature_id
    return ApprovalInvalid(f"The approval of `{name}` is void: {why}.", feature_id=name)


def _unspend_approval(call: Call, approval_id: ApprovalId | None) -> None:
    if approval_id is None:
        return
    with call.kernel.record.write() as tx:
        current = tx.get(Approval, approval_id)
        if current is not None and current.spent_by == call.operation():
            tx.put(revise(current, spent_by=None), approval_id)


def _finish_merge(call: Call, intent: MergeIntent) -> Outcome:
    kernel, prepared, run = call.kernel, intent.prepared, intent.gate_run
    worktrees, branch = kernel.git.worktrees, prepared.base_branch
    notice = worktrees.checkout_behind(branch, old=prepared.base, new=prepared.merge_commit) or ""

    with kernel.record.read() as view:
        seen = view.get(FeatureState, intent.feature_id)
    if seen is not None:
        kernel.send_work(_merged(seen, intent))

    def decide(tx: Transaction) -> Outcome:
        state = tx.get(FeatureState, intent.feature_id)
        if state is None:
            raise ApprovalInvalid(f"The feature `{intent.feature_id}` is gone.")
        after = _merged(state, intent)
        tx.put(run, run.run_id)
        if intent.tests is not None:
            store_baseline(tx, prepared.merge_commit, intent.tests.definition, run, intent.tests.names)
        store_merged_verdicts(tx, state, run)
        stored = store_feature(tx, state, after, now=kernel.now())
        tx.append(
            call.event(
                "feature_merged",
                stored.feature_id,
                strategy=prepared.strategy,
                commit=prepared.feature_commit,
                merge_commit=prepared.merge_commit,
                base=prepared.base,
                approval_id=prepared.approval_id,
                gate_run_id=run.run_id,
                run_sha256=digest_of(run),
            )
        )
        release_for_status(tx, call, stored)
        return Answer(data=_result(stored, prepared, notice), evidence=evidence_pointers(run))

    return call.commit(decide)


def _merged(state: FeatureState, intent: MergeIntent) -> FeatureState:
    """Return the feature as it is after its merge."""
    after = with_status(with_verdict(state, intent.gate_run), Status.MERGED)
    proof = copy_fields(MergeEvidence, intent.prepared, commit=intent.prepared.feature_commit, gates=after.gates)
    evidence = msgspec.structs.replace(after.evidence, merge=proof)
    return msgspec.structs.replace(after, evidence=evidence, locks=HeldLocks())


def _result(state: FeatureState, prepared: PreparedMerge, notice: str) -> MergeResult:
    return copy_fields(
        MergeResult,
        state,
        commit=prepared.feature_commit,
        merge_commit=prepared.merge_commit,
        base_branch=prepared.base_branch,
        strategy=prepared.strategy,
        notice=notice,
    )


def settle_merge(call: Call, left: Mapping[str, Json]) -> Outcome | None:
    """Finish a merge whose caller died after the base branch moved; undo it otherwise."""
    intent = msgspec.convert(left, MergeIntent)
    with call.kernel.record.read() as view:
        state = view.get(FeatureState, intent.feature_id)
    if state is None or state.status is Status.MERGED:
        return None
    head = call.kernel.git.branches.head(intent.prepared.base_branch)
    if head is not None and call.kernel.git.objects.is_ancestor(CommitId(intent.prepared.merge_commit), head):
        return _finish_merge(call, intent)
    _unspend_approval(call, intent.prepared.approval_id)
    return None


def merge(call: Call, arguments: MergeArguments) -> Outcome:
    """Do what `feature.ready_to_merge` does, with the same proofs and the same approval."""
    with call.kernel.record.read() as view:
        the_feature(view, arguments)
    if not call.kernel.config().policy.commit_policy.allow_merge:
        raise MergeDisabled("The policy allows a merge only through `feature.ready_to_merge`.")
    return ready_to_merge(call, arguments)


TOOLS = (
    Tool(
        name="feature.approve",
        summary="Approve the feature's tree for one merge onto the base branch as it is now.",
        arguments=ApproveArguments,
        output=GrantedApproval,
        roles=COORDINATORS,
        run=approve,
        mutates=True,
        person_only=True,
        reveal=with_token,
    ),
    Tool(
        name="feature.ready_to_merge",
        summary="Merge an approved feature into the base branch, after proving the merged tree.",
        arguments=MergeArguments,
        output=MergeResult,
        roles=COORDINATORS,
        run=ready_to_merge,
        mutates=True,
        person_only=True,
        resolve=settle_merge,
    ),
    Tool(
        name="repo.merge",
        summary="Merge an approved feature as `feature.ready_to_merge` does; for the system only.",
        arguments=MergeArguments,
        output=MergeResult,
        roles=SYSTEM,
        run=merge,
        mutates=True,
        person_only=True,
        resolve=settle_merge,
    ),
)
