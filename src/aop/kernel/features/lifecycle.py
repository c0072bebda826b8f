"""Life cycle of a feature: the legal steps, and the index of all features."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from aop.core.errors import InvalidStatusTransition, NotForABuild
from aop.core.ids import FeatureId
from aop.kernel.features.opened_paths import expire_path_answers
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.base import next_version, revise
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Index, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.role_sessions import role_statuses

LEGAL: Mapping[Status, frozenset[Status]] = {
    Status.PLANNING: frozenset({Status.BUILDING, Status.BLOCKED, Status.FAILED}),
    Status.BUILDING: frozenset({Status.QA, Status.BLOCKED, Status.FAILED}),
    Status.QA: frozenset({Status.READY_TO_MERGE, Status.BLOCKED, Status.FAILED}),
    Status.READY_TO_MERGE: frozenset({Status.MERGED, Status.BUILDING, Status.QA, Status.BLOCKED, Status.FAILED}),
    Status.BLOCKED: frozenset({Status.PLANNING, Status.BUILDING, Status.QA, Status.FAILED}),
    Status.MERGED: frozenset(),
    Status.FAILED: frozenset(),
}
"""The legal steps (AOP-248..254, C-23); any other is refused with `invalid_status_transition`."""

PROVEN_STEPS = frozenset(
    {
        (Status.PLANNING, Status.BUILDING),
        (Status.BUILDING, Status.QA),
        (Status.QA, Status.READY_TO_MERGE),
        (Status.READY_TO_MERGE, Status.MERGED),
    }
)
"""Steps that need a proof: an accepted plan, passed gates or a merge. No caller sets them by hand."""

LIVING = tuple(status for status in Status if status not in TERMINAL)
_ON_THE_WAY = (Status.PLANNING, Status.BUILDING, Status.QA, Status.READY_TO_MERGE)

NOT_RUN: Mapping[str, Verdict] = {"fast": Verdict.NA, "full": Verdict.NA, "merge": Verdict.NA}
"""The verdicts of a tree on which no gate has run."""


def with_status(state: FeatureState, to: Status, *, reason: str = "") -> FeatureState:
    """Return the feature in another status. Raises: InvalidStatusTransition."""
    if to not in next_steps(state):
        raise step_refusal(state, to, next_steps(state))
    if state.waits_for and to is not Status.FAILED:
        named = " and ".join(f"`{name}`" for name in state.waits_for)
        raise InvalidStatusTransition(
            f"The feature `{state.feature_id}` waits for {named}, and cannot become `{to}` before that is merged.",
            hint="First review, approve and merge what it waits for.",
            feature_id=state.feature_id,
            status=state.status,
            waits_for=list(state.waits_for),
        )
    if state.status is Status.BLOCKED and to is not Status.FAILED and not reason:
        raise InvalidStatusTransition(
            f"The feature `{state.feature_id}` is blocked; leaving `blocked` needs a reason.",
            feature_id=state.feature_id,
            status=state.status,
        )
    blocked_from = state.status if to is Status.BLOCKED else None
    return msgspec.structs.replace(state, status=to, status_reason=reason, blocked_from=blocked_from)


def back_to_building(state: FeatureState, *, reason: str) -> FeatureState:
    """Return the feature as one that a person sends back to be built. Raises: InvalidStatusTransition."""
    if state.status in (Status.BUILDING, Status.QA):
        # No legal step leads back from `qa`; only a person's word does.
        return msgspec.structs.replace(state, status=Status.BUILDING, status_reason=reason)
    return with_status(state, Status.BUILDING, reason=reason)


def next_steps(state: FeatureState) -> frozenset[Status]:
    """Return the statuses that may follow; from `blocked`, only those that the feature had reached before."""
    # A build ends with a seal, and its feature stays as it is.
    legal = frozenset[Status]() if state.is_build else LEGAL[state.status]
    if state.blocked_from is None:
        return legal
    unreached = _ON_THE_WAY[_ON_THE_WAY.index(state.blocked_from) + 1 :]
    return legal.difference(unreached)


def manual_steps(state: FeatureState) -> frozenset[Status]:
    """Return the statuses that may be set by hand, without a proof."""
    return frozenset(to for to in next_steps(state) if (state.status, to) not in PROVEN_STEPS)


def step_refusal(state: FeatureState, to: Status, allowed: AbstractSet[Status]) -> InvalidStatusTransition:
    """Return the refusal of a step, with the steps that are allowed."""
    return InvalidStatusTransition(
        f"The feature `{state.feature_id}` is `{state.status}` and cannot become `{to}`.",
        feature_id=state.feature_id,
        status=state.status,
        allowed=sorted(allowed),
    )


def require_status(state: FeatureState, *allowed: Status, to: str) -> None:
    """Refuse an action that the feature's status does not allow. Raises: InvalidStatusTransition."""
    if state.status not in allowed:
        wanted = " or ".join(f"`{status}`" for status in allowed)
        raise InvalidStatusTransition(
            f"The feature `{state.feature_id}` is `{state.status}`; to {to} it must be {wanted}.",
            feature_id=state.feature_id,
            status=state.status,
        )


def stopped_reason(kernel: Kernel, feature_id: FeatureId) -> str:
    """Return why a feature has failed, or was stopped by a person; empty if it goes on."""
    with kernel.record.read() as view:
        state = view.get(FeatureState, feature_id)
    if state is None or state.status is not Status.FAILED:
        return ""
    return state.status_reason or f"`{feature_id}` has failed."


def refuse_build(state: FeatureState, what: str) -> None:
    """Refuse a change that a build of forge must not suffer. Raises: NotForABuild."""
    if state.is_build:
        raise NotForABuild(f"`{state.feature_id}` is a build: {what}.", feature_id=state.feature_id)


def store_feature(tx: Transaction, before: FeatureState, after: FeatureState, *, now: str) -> FeatureState:
    """Store the next version of a feature, and bring its roles, index and files in step."""
    stored = msgspec.structs.replace(after, version=next_version(before), last_updated=now)
    if stored.status is not before.status and stored.role_status == before.role_status:
        stored = msgspec.structs.replace(stored, role_status=role_statuses(tx, stored))
    tx.put(stored, stored.feature_id)
    tx.mark_unshown("feature", stored.feature_id)
    if _list_name(before.status) != _list_name(stored.status):
        relist(tx, stored.feature_id, stored.status, now=now)
    if stored.status in TERMINAL:
        tx.set_claims(stored.feature_id, ())
        expire_path_answers(tx, stored.feature_id, stored.status)
    if before.status is Status.READY_TO_MERGE and stored.status not in (Status.READY_TO_MERGE, Status.MERGED):
        _withdraw_approvals(tx, stored)
    return stored


def change_status(
    tx: Transaction, call: Call, before: FeatureState, after: FeatureState, *, reason: str = ""
) -> FeatureState:
    """Store a feature in its new status, and note the change in the journal."""
    stored = store_feature(tx, before, after, now=call.kernel.now())
    why = reason or stored.status_reason
    tx.append(call.event("status_changed", stored.feature_id, old=before.status, new=stored.status, reason=why))
    return stored


def store_changed(tx: Transaction, call: Call, before: FeatureState, after: FeatureState) -> FeatureState:
    """Store a changed feature; a new status is noted in the journal."""
    if after.status is before.status:
        return store_feature(tx, before, after, now=call.kernel.now())
    return change_status(tx, call, before, after)


def _withdraw_approvals(tx: Transaction, state: FeatureState) -> None:
    """Withdraw open approvals: a tree that becomes ready again needs a new one."""
    for approval in list(tx.all(Approval)):
        if approval.feature_id == state.feature_id and approval.spent_by is None and not approval.withdrawn:
            reason = state.status_reason or f"The feature became `{state.status}`."
            tx.put(revise(approval, withdrawn=reason), approval.approval_id)


def relist(tx: Transaction, feature_id: FeatureId, status: Status | None, *, now: str) -> None:
    """Move a feature to the list of its status in the index; without a status, remove it from the index."""
    index = feature_index(tx)
    lists: dict[str, tuple[FeatureId, ...]] = {
        name: tuple(other for other in getattr(index, name) if other != feature_id)
        for name in ("active", "blocked", "merged", "failed")
    }
    if status is not None:
        name = _list_name(status)
        lists[name] = tuple(sorted((*lists[name], feature_id)))
    store_index(tx, msgspec.structs.replace(index, **lists), now=now)


def feature_index(view: Snapshot) -> Index:
    """Return the index, or an empty one before the first feature."""
    return view.get(Index, Index.key) or Index(version=1)


def store_index(tx: Transaction, index: Index, *, now: str) -> None:
    """Store the next version of the index."""
    version = next_version(tx.get(Index, Index.key))
    tx.put(msgspec.structs.replace(index, version=version, updated_at=now), Index.key)
    tx.mark_unshown("index", Index.key)


def _list_name(status: Status) -> str:
    return {Status.BLOCKED: "blocked", Status.MERGED: "merged", Status.FAILED: "failed"}.get(status, "active")
