"""Grants: locks in the record, in step with index, features and journal."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.kernel.features.lifecycle import feature_index, store_feature, store_index
from aop.kernel.gateway.calls import Call
from aop.kernel.locks.leases import Busy, Grant, LockRequest, Now, is_live, request_lease, why_ended, without_lease
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.locks import Lease, Lock
from aop.kernel.record.port import Snapshot, Transaction


def lease_id(resource: str, lease: Lease) -> str:
    """Return the id of one grant of one resource."""
    return f"{resource}#{lease.fence}"


def lock_on(view: Snapshot, resource: str) -> Lock:
    """Return the lock on a resource; a new one if the record has none."""
    return view.get(Lock, resource) or Lock(version=1, resource=resource)


def store_lock(tx: Transaction, lock: Lock) -> None:
    """Store the next version of a lock."""
    version = next_version(tx.get(Lock, lock.resource))
    tx.put(msgspec.structs.replace(lock, version=version), lock.resource)


def leases_of(view: Snapshot, feature_id: FeatureId) -> dict[str, Lease]:
    """Return the leases in a feature's name by resource, expired ones included."""
    return {
        lock.resource: lock.lease
        for lock in view.all(Lock)
        if lock.lease is not None and lock.lease.feature_id == feature_id
    }


def live_leases(view: Snapshot, feature_id: FeatureId, now: Now) -> dict[str, Lease]:
    """Return the live leases of a feature, by resource."""
    return {name: lease for name, lease in leases_of(view, feature_id).items() if is_live(lease, now)}


def grant_or_renew(tx: Transaction, call: Call, resource: str, request: LockRequest, now: Now) -> Grant | Busy:
    """Grant or renew a lock if it is free for the request, and update index, features and journal."""
    ttl = call.kernel.config().policy.locks.lease_ttl_seconds
    granted = request_lease(lock_on(tx, resource), request, now, ttl=ttl, is_running=call.kernel.locks.is_running)
    if isinstance(granted, Busy):
        return granted
    store_lock(tx, granted.lock)
    _list_lease(tx, resource, granted.lease, now)
    _note_reclaimed(tx, call, resource, granted, now)
    if granted.outcome == "acquired":
        _set_held(tx, request.feature_id, resource, now, is_held=True)
        tx.append(call.event("lock_acquired", request.feature_id, resource=resource, fence=granted.lease.fence))
    return granted


def renew(tx: Transaction, call: Call, feature_id: FeatureId, resources: Collection[str], now: Now) -> None:
    """Renew leases of a feature."""
    request = LockRequest(feature_id=feature_id, actor=call.principal.actor, operation_id=call.operation())
    for resource in sorted(resources):
        grant_or_renew(tx, call, resource, request, now)


def release_leases(tx: Transaction, call: Call, feature_id: FeatureId, resources: Collection[str], now: Now) -> None:
    """Release locks that a feature holds. Raises: LockNotHeld."""
    for resource in sorted(resources):
        lock = lock_on(tx, resource)
        store_lock(tx, without_lease(lock, feature_id))
        _list_lease(tx, resource, None, now)
        _set_held(tx, feature_id, resource, now, is_held=False)
        tx.append(call.event("lock_released", feature_id, resource=resource, fence=lock.last_fence))


def reclaim_facts(granted: Grant, now: Now) -> dict[str, Json]:
    """Return the facts about an expired lease that was replaced (AOP-220); empty without one."""
    stale = granted.stale
    if stale is None:
        return {}
    return {
        "old_holder": stale.feature_id,
        "old_actor": stale.holder,
        "old_fence": stale.fence,
        "new_fence": granted.lease.fence,
        "acquired_at": stale.acquired_at,
        "renewed_at": stale.renewed_at,
        "reason": why_ended(stale, now),
    }


def _note_reclaimed(tx: Transaction, call: Call, resource: str, granted: Grant, now: Now) -> None:
    stale, lease = granted.stale, granted.lease
    if stale is None:
        return
    if stale.feature_id != lease.feature_id:
        _set_held(tx, stale.feature_id, resource, now, is_held=False)
    facts = {**reclaim_facts(granted, now), "new_holder": lease.feature_id}
    tx.append(call.event("stale_lock_reclaimed", stale.feature_id, resource=resource, **facts))


def _set_held(tx: Transaction, feature_id: FeatureId, resource: str, now: Now, *, is_held: bool) -> None:
    state = tx.get(FeatureState, feature_id)
    if state is not None and is_held != (resource in state.locks.held):
        held = {*state.locks.held} ^ {resource}
        locks = msgspec.structs.replace(state.locks, held=tuple(sorted(held)))
        store_feature(tx, state, msgspec.structs.replace(state, locks=locks), now=now.at)


def _list_lease(tx: Transaction, resource: str, lease: Lease | None, now: Now) -> None:
    index = feature_index(tx)
    leases = {name: facts for name, facts in index.lock_leases.items() if name != resource}
    if lease is not None:
        leases[resource] = {
            "holder": lease.feature_id,
            "lease_id": lease_id(resource, lease),
            "fence": lease.fence,
            "acquired_at": lease.acquired_at,
            "renewed_at": lease.renewed_at,
            "expires_at": lease.expires_at,
        }
    locks = {**index.locks, resource: None if lease is None else lease.feature_id}
    after = msgspec.structs.replace(index, locks=dict(sorted(locks.items())), lock_leases=dict(sorted(leases.items())))
    store_index(tx, after, now=now.at)
