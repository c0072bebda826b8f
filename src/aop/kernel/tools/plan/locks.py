"""Tools `locks.acquire`, which also renews, and `locks.release`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import LockConflict
from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.core.text.counts import count
from aop.kernel.config.policy import LockRules
from aop.kernel.features.lifecycle import LIVING, require_status
from aop.kernel.gateway.calls import Answer, Call, ChangeArguments, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.locks import grants, leases
from aop.kernel.locks.leases import Busy, Grant, LockRequest, Now, read_clock
from aop.kernel.plans.waiting_queue import admit_waiting_plans
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.locks import Lock
from aop.kernel.record.port import Transaction


class LockArguments(ChangeArguments, frozen=True, kw_only=True):
    resource: Annotated[str, Meta(min_length=1, max_length=500)]


class AcquireArguments(LockArguments, frozen=True, kw_only=True):
    wait_timeout_seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """How long to wait for a lock that is held; by default the policy decides."""


class AcquireResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    resource: str
    outcome: Literal["acquired", "renewed"]
    lease_id: str
    fence: int
    """Counts the grants of this resource. While it stays the same, no other feature held the lock."""
    holder: str
    acquired_at: str
    renewed_at: str
    expires_at: str
    lease_ttl_seconds: int


def acquire(call: Call, arguments: AcquireArguments) -> Outcome:
    """Acquire a lock for a feature, waiting in its queue, or renew the lease of its holder."""
    clock, rules = call.kernel.clock, call.kernel.config().policy.locks
    leases.check_resource(arguments.resource, rules)
    request = LockRequest(
        feature_id=FeatureId(arguments.feature_id), actor=call.principal.actor, operation_id=call.operation()
    )
    deadline = clock.boot_seconds() + _wait_seconds(arguments, rules)
    waits = leases.pauses(rules.acquire_backoff, call.operation())
    while True:
        try:
            return call.commit(partial(_try_to_acquire, call, arguments, request))
        except LockConflict as conflict:
            left = deadline - clock.boot_seconds()
            if left <= 0:
                _change_waiters(call, arguments.resource, lambda lock: leases.without_waiter(lock, call.operation()))
                raise
            call.report(conflict.message)
        _change_waiters(call, arguments.resource, partial(_with_own_waiter, call, request))
        clock.pause(min(next(waits), left, _seconds_left(call, arguments.resource)))


def _wait_seconds(arguments: AcquireArguments, rules: LockRules) -> float:
    if arguments.wait_timeout_seconds is not None:
        return arguments.wait_timeout_seconds
    return rules.default_wait_timeout_seconds if rules.acquire_behavior == "wait" else 0.0


def _try_to_acquire(call: Call, arguments: AcquireArguments, request: LockRequest, tx: Transaction) -> Outcome:
    state = the_feature(tx, arguments)
    require_status(state, *LIVING, to="get a lock")
    now = read_clock(call.kernel.clock)
    leases.check_order(arguments.resource, grants.live_leases(tx, state.feature_id, now))
    granted = grants.grant_or_renew(tx, call, arguments.resource, request, now)
    if isinstance(granted, Busy):
        raise _lock_conflict(arguments.resource, granted, now)
    admit_waiting_plans(tx, call)
    facts = grants.reclaim_facts(granted, now)
    return Answer(
        data=_result(call, feature_named(tx, state.feature_id), arguments.resource, granted),
        evidence={"stale_lock_reclaimed": facts} if facts else {},
    )


def _result(call: Call, state: FeatureState, resource: str, granted: Grant) -> AcquireResult:
    lease = granted.lease
    return copy_fields(
        AcquireResult,
        lease,
        feature_id=state.feature_id,
        version=state.version,
        resource=resource,
        outcome=granted.outcome,
        lease_id=grants.lease_id(resource, lease),
        lease_ttl_seconds=call.kernel.config().policy.locks.lease_ttl_seconds,
    )


def _lock_conflict(resource: str, busy: Busy, now: Now) -> LockConflict:
    lease = busy.lease
    waiting = f"{count(len(busy.ahead), 'call')} came first" if busy.ahead else ""
    held = f"`{lease.feature_id}` holds it since {lease.acquired_at}" if lease else ""
    return LockConflict(
        f"`{resource}` is not free: {'; '.join(filter(None, (held, waiting)))}.",
        resource=resource,
        conflicting_feature_ids=sorted(
            {*([lease.feature_id] if lease else []), *(each.feature_id for each in busy.ahead)}
        ),
        holder=lease.feature_id if lease else None,
        held_by_actor=lease.holder if lease else None,
        held_since=lease.acquired_at if lease else None,
        expires_at=lease.expires_at if lease else None,
        expires_in_seconds=round(lease.expires_boot - now.seconds, 3) if lease else None,
        waiting_before=[each.feature_id for each in busy.ahead],
    )


def _with_own_waiter(call: Call, request: LockRequest, lock: Lock) -> Lock:
    return leases.with_waiter(lock, request, read_clock(call.kernel.clock), is_running=call.kernel.locks.is_running)


def _change_waiters(call: Call, resource: str, change: Callable[[Lock], Lock]) -> None:
    with call.kernel.record.write() as tx:
        lock = grants.lock_on(tx, resource)
        changed = change(lock)
        if changed != lock:
            grants.store_lock(tx, changed)


def _seconds_left(call: Call, resource: str) -> float:
    """Return the seconds until the current lease expires: the longest useful wait before the next attempt."""
    with call.kernel.record.read() as view:
        lease = grants.lock_on(view, resource).lease
    now = read_clock(call.kernel.clock)
    return lease.expires_boot - now.seconds if lease is not None and leases.is_live(lease, now) else math.inf


class ReleaseResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    resource: str
    accepted_plans: tuple[str, ...]
    """The features whose waiting plans were accepted because of this."""


@committed
def release(call: Call, arguments: LockArguments, tx: Transaction) -> Outcome:
    """Release a lock for the next request in its queue."""
    state = the_feature(tx, arguments)
    if arguments.resource not in grants.leases_of(tx, state.feature_id):
        leases.check_resource(arguments.resource, call.kernel.config().policy.locks)
    grants.release_leases(tx, call, state.feature_id, [arguments.resource], read_clock(call.kernel.clock))
    accepted = admit_waiting_plans(tx, call)
    after = feature_named(tx, state.feature_id)
    return ReleaseResult(
        feature_id=after.feature_id, version=after.version, resource=arguments.resource, accepted_plans=accepted
    )


TOOLS = (
    Tool(
        name="locks.acquire",
        summary="Acquire a lock for a feature, waiting in its queue; the holder renews the lease by calling again.",
        arguments=AcquireArguments,
        output=AcquireResult,
        roles=COORDINATORS,
        run=acquire,
        mutates=True,
    ),
    Tool(
        name="locks.release",
        summary="Release a lock that a feature holds.",
        arguments=LockArguments,
        output=ReleaseResult,
        roles=COORDINATORS,
        run=release,
        mutates=True,
        brief=True,
    ),
)
