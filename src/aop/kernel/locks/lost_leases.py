"""Lost leases: features to block when a run begins (AOP-256, AOP-257)."""

from __future__ import annotations

from collections.abc import Sequence

from aop.kernel.features.lifecycle import change_status, with_status
from aop.kernel.gateway.calls import Call
from aop.kernel.locks.grants import lock_on
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.plans import BlockedQueue
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.documents.runs import PendingWork
from aop.kernel.record.port import Snapshot, Transaction

QA_ENDS = ("passed", "waived")


def block_features_that_lost_locks(tx: Transaction, call: Call) -> tuple[str, ...]:
    """Block features whose lock another feature got after their lease expired; return them.

    An expired lease that no other feature took is renewed under its number, and its feature continues.
    """
    blocked = []
    for state in [state for state in tx.all(FeatureState) if state.status not in (*TERMINAL, Status.BLOCKED)]:
        lost = [name for name, fence in state.locks.relied_on.items() if lock_on(tx, name).last_fence > fence]
        if lost:
            reason = _blocking_reason(tx, state, sorted(lost))
            change_status(tx, call, state, with_status(state, Status.BLOCKED, reason=reason))
            blocked.append(state.feature_id)
    return tuple(blocked)


def _blocking_reason(view: Snapshot, state: FeatureState, lost: Sequence[str]) -> str:
    leases = {name: lock_on(view, name).lease for name in lost}
    takers = sorted(
        {f"`{lease.feature_id}`" for lease in leases.values() if lease and lease.feature_id != state.feature_id}
    )
    names = ", ".join(f"`{name}`" for name in lost)
    return (
        f"Its lease on {names} expired, and {', '.join(takers) or 'another feature'} got the lock. Its work is checked"
        " again before it continues."
    )


def pending_work(view: Snapshot, unfinished_gates: Sequence[str], lost_locks: Sequence[str]) -> PendingWork:
    """Return the pending work of all features."""
    queue = view.get(BlockedQueue, BlockedQueue.key)
    states = {state.feature_id: state.status for state in view.all(FeatureState) if state.status not in TERMINAL}
    indexes = [index for index in view.all(QaIndex) if index.feature_id in states]
    open_items = {index.feature_id: sum(1 for item in index.items if item.status not in QA_ENDS) for index in indexes}
    return PendingWork(
        features=states,
        queued_plans=tuple(each.feature_id for each in queue.plans) if queue else (),
        unfinished_gates=tuple(unfinished_gates),
        qa_items={name: count for name, count in open_items.items() if count},
        lost_locks=tuple(lost_locks),
    )
