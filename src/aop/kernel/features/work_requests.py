"""Work requests: features that a person wants worked on, or paused."""

from __future__ import annotations

from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.runs import Pause, QuotaWait, WorkRequest
from aop.kernel.record.port import Transaction


def request_work(
    tx: Transaction, call: Call, name: FeatureId, *, depends_on: tuple[FeatureId, ...] = (), again: bool = False
) -> None:
    """Store a request; an open one is replaced, and keeps its wish to begin again."""
    before = tx.get(WorkRequest, name)
    wish = WorkRequest(
        version=next_version(before),
        feature_id=name,
        again=again or (before is not None and before.again),
        depends_on=depends_on,
        wished_by=call.principal.actor,
        wished_at=call.kernel.now(),
    )
    tx.put(wish, name)


def store_pause(tx: Transaction, call: Call, name: FeatureId | None) -> bool:
    """Store the pause of a feature, or of everything; tell whether there was none before."""
    key = name or Pause.all
    if tx.get(Pause, key) is not None:
        return False
    tx.put(Pause(version=1, feature_id=name, paused_by=call.principal.actor, paused_at=call.kernel.now()), key)
    tx.append(call.event("run_paused", name))
    return True


def end_quota_wait(tx: Transaction, call: Call, name: FeatureId) -> bool:
    """End a feature's wait for its model's quota; tell whether it waited."""
    if tx.get(QuotaWait, name) is None:
        return False
    tx.remove(QuotaWait, name)
    tx.append(call.event("quota_wait_ended", name))
    return True
