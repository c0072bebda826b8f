"""Waiting queue: plans that collide wait under `collision_policy: block`.

The queue is examined in the transaction that releases something, oldest first, so that the same history always admits
the same plan.
"""

from __future__ import annotations

import msgspec

from aop.core.errors import BlockedByCollisionPolicy, Json, Refusal
from aop.core.ids import FeatureId, OperationId
from aop.kernel.config.policy import Policy
from aop.kernel.features.lifecycle import feature_index, store_changed, store_feature, store_index, with_status
from aop.kernel.gateway.calls import Call, feature_named
from aop.kernel.locks.grants import grant_or_renew, leases_of, lock_on, release_leases
from aop.kernel.locks.leases import Busy, Grant, LockRequest, Now, read_clock, request_lease
from aop.kernel.plans.acceptance import PlanAssessment, accept_plan, acceptance_event, assess_plan, without_block
from aop.kernel.plans.checks import bounds_of, check_first, check_revision
from aop.kernel.plans.collisions import Collision, collision_refusal
from aop.kernel.plans.needed_locks import locks_for_plan
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import TERMINAL, Collisions, FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan, BlockedQueue, Plan, QueuedPlan
from aop.kernel.record.port import Snapshot, Transaction


def waiting_plans(view: Snapshot) -> tuple[QueuedPlan, ...]:
    """Return the waiting plans, in the order in which they are examined."""
    queue = view.get(BlockedQueue, BlockedQueue.key)
    return () if queue is None else queue.plans


def statuses_while_waiting(view: Snapshot, state: FeatureState) -> tuple[Status, ...]:
    """Return `blocked` if the feature's own plan waits: another plan may replace it."""
    waits = any(each.feature_id == state.feature_id for each in waiting_plans(view))
    return (Status.BLOCKED,) if waits else ()


def queue_plan(
    tx: Transaction, call: Call, state: FeatureState, assessment: PlanAssessment, now: Now
) -> BlockedByCollisionPolicy:
    """Queue a plan that collides, release the locks that the plans before it need, and return the refusal."""
    entry = _queue_entry(tx, call, state, assessment, now)
    release_leases(tx, call, state.feature_id, _locks_to_release(tx, call.kernel.config().policy, entry), now)
    _store_queue(tx, [*_other_plans(tx, state.feature_id), entry], now)
    stored = _store_waiting(tx, entry, assessment.collisions, now)
    facts: dict[str, Json] = {"plan_version": entry.plan.plan_version, "waits_for": _names_waited_for(entry)}
    facts["status"] = stored.status
    tx.append(call.event("plan_blocked", state.feature_id, **facts, entry=_index_entry(entry)))
    report = collision_refusal(state.feature_id, assessment.collisions)
    blocked = BlockedByCollisionPolicy(
        f"{report.message} Its plan waits for {_names_waited_for(entry)}.",
        blocked_queue_entry=_index_entry(entry),
        queue_position=waiting_plans(tx).index(entry) + 1,
        waits_for=list(entry.waits_for),
        version=stored.version,
        status=stored.status,
    )
    blocked.facts.update(report.facts)
    return blocked


def leave_queue(tx: Transaction, feature_id: FeatureId, now: Now) -> None:
    """Remove a feature's plan from the queue, if one waits."""
    others = _other_plans(tx, feature_id)
    if len(others) != len(waiting_plans(tx)):
        _store_queue(tx, others, now)


def release_for_status(tx: Transaction, call: Call, state: FeatureState) -> None:
    """Release what a feature in this status no longer needs, and admit the plans that waited for it."""
    now = read_clock(call.kernel.clock)
    if state.status in TERMINAL:
        release_leases(tx, call, state.feature_id, leases_of(tx, state.feature_id), now)
    if state.status is not Status.BLOCKED:
        leave_queue(tx, state.feature_id, now)
    admit_waiting_plans(tx, call)


def store_and_release(tx: Transaction, call: Call, before: FeatureState, after: FeatureState) -> FeatureState:
    """Store a changed feature, and release what it needs no longer if its status is new; return it as it is then."""
    stored = store_changed(tx, call, before, after)
    if stored.status is not before.status:
        release_for_status(tx, call, stored)
    return feature_named(tx, stored.feature_id)


def admit_waiting_plans(tx: Transaction, call: Call) -> tuple[FeatureId, ...]:
    """Accept every waiting plan that no longer collides, oldest first; called wherever a lock or claim is released."""
    now, admitted = read_clock(call.kernel.clock), list[FeatureId]()
    # From the beginning each time: an accepted revision may have released what an older plan waits for.
    while any(_try_to_admit(tx, call, entry, now, admitted) for entry in waiting_plans(tx)):
        pass
    return tuple(admitted)


def _try_to_admit(tx: Transaction, call: Call, entry: QueuedPlan, now: Now, admitted: list[FeatureId]) -> bool:
    """Examine one plan; tell whether it left the queue."""
    state = tx.get(FeatureState, entry.feature_id)
    if state is None:
        leave_queue(tx, entry.feature_id, now)
        return True
    try:
        _check_version(tx, entry.plan)
        assessment = assess_plan(tx, state, entry.plan, call.kernel.config(), entry.accounting)
    except Refusal as refusal:
        _reject_queued_plan(tx, call, entry, refusal, now)
        return True
    fences = {} if assessment.collisions else _grant_all_or_none(tx, call, entry, assessment.locks, now)
    if assessment.collisions or fences is None:
        _update_waiting(tx, call, entry, assessment, now)
        return False
    stored = accept_plan(tx, call, feature_named(tx, entry.feature_id), assessment, fences)
    leave_queue(tx, stored.feature_id, now)
    _note_admitted(tx, call, entry, stored)
    admitted.append(stored.feature_id)
    return True


def _check_version(view: Snapshot, plan: Plan) -> None:
    accepted = view.get(AcceptedPlan, plan.feature_id)
    if plan.revision_of is None:
        check_first(plan, accepted)
    else:
        check_revision(plan, accepted, plan.revision_of)


def _reject_queued_plan(tx: Transaction, call: Call, entry: QueuedPlan, refusal: Refusal, now: Now) -> None:
    """Remove a plan that is no longer acceptable: the policy or the plan that it revises has changed."""
    leave_queue(tx, entry.feature_id, now)
    state = feature_named(tx, entry.feature_id)
    reason = f"Plan {entry.plan.plan_version} left the queue: {refusal.message}"
    after = msgspec.structs.replace(without_block(state, reason), collisions=Collisions())
    store_feature(tx, state, after, now=now.at)
    facts: dict[str, Json] = {"plan_version": entry.plan.plan_version, "code": refusal.code, "reason": refusal.message}
    facts["status"] = after.status
    tx.append(call.event("blocked_plan_refused", entry.feature_id, **facts))


def _grant_all_or_none(
    tx: Transaction, call: Call, entry: QueuedPlan, resources: tuple[str, ...], now: Now
) -> dict[str, int] | None:
    """Take all locks that a plan needs, or none; earlier waiters keep their places."""
    if _features_ahead(tx, call, entry, resources, now):
        return None
    granted = {name: grant_or_renew(tx, call, name, _lock_request(entry), now) for name in resources}
    return {name: grant.lease.fence for name, grant in granted.items() if isinstance(grant, Grant)}


def _features_ahead(
    view: Snapshot, call: Call, entry: QueuedPlan, resources: tuple[str, ...], now: Now
) -> tuple[FeatureId, ...]:
    """Return the features that hold one of these locks or wait for it longer."""
    ttl, is_running = call.kernel.config().policy.locks.lease_ttl_seconds, call.kernel.locks.is_running
    request, locks = _lock_request(entry), [lock_on(view, name) for name in resources]
    answers = [request_lease(lock, request, now, ttl=ttl, is_running=is_running) for lock in locks]
    busy = [each for each in answers if isinstance(each, Busy)]
    holders = [each.lease.feature_id for each in busy if each.lease is not None]
    return tuple(sorted({*holders, *(waiter.feature_id for each in busy for waiter in each.ahead)}))


def _lock_request(entry: QueuedPlan) -> LockRequest:
    # No waiting call has this id, so the plan comes after all of them.
    return LockRequest(
        feature_id=entry.feature_id, actor=entry.submitted_by, operation_id=OperationId(f"queue:{entry.feature_id}")
    )


def _update_waiting(tx: Transaction, call: Call, entry: QueuedPlan, assessment: PlanAssessment, now: Now) -> None:
    """Update the stored facts about a waiting plan."""
    after = msgspec.structs.replace(
        entry,
        collision_fingerprint=_fingerprint(entry.feature_id, assessment),
        required_resources=assessment.locks,
        waits_for=_colliding_features(assessment) or _features_ahead(tx, call, entry, assessment.locks, now),
    )
    if after != entry:
        _store_queue(tx, [*_other_plans(tx, entry.feature_id), after], now)
        _store_waiting(tx, after, assessment.collisions, now)


def _note_admitted(tx: Transaction, call: Call, entry: QueuedPlan, state: FeatureState) -> None:
    kind, facts = acceptance_event(entry.plan, entry.accounting)
    facts |= {"waited_since": entry.detected_at, "let_in_by": call.principal.actor, "status": state.status}
    event = call.event(kind, entry.feature_id, **facts)
    # The author of the plan is its submitter, not the caller that happened to admit it.
    tx.append(msgspec.structs.replace(event, actor=entry.submitted_by))


def _queue_entry(view: Snapshot, call: Call, state: FeatureState, assessment: PlanAssessment, now: Now) -> QueuedPlan:
    same = [
        each.detected_at
        for each in waiting_plans(view)
        if each.feature_id == state.feature_id and each.plan == assessment.plan
    ]
    return QueuedPlan(
        feature_id=state.feature_id,
        plan=assessment.plan,
        submitted_by=call.principal.actor,
        detected_at=same[0] if same else now.at,
        collision_fingerprint=_fingerprint(state.feature_id, assessment),
        required_resources=assessment.locks,
        waits_for=_colliding_features(assessment),
        accounting=assessment.accounting,
    )


def _fingerprint(feature_id: FeatureId, assessment: PlanAssessment) -> str:
    return str(collision_refusal(feature_id, assessment.collisions).facts["collision_fingerprint"])


def _colliding_features(assessment: PlanAssessment) -> tuple[FeatureId, ...]:
    return tuple(sorted({each.feature_id for each in assessment.collisions}))


def _locks_to_release(view: Snapshot, policy: Policy, entry: QueuedPlan) -> set[str]:
    """Return the locks of the feature that the plans ahead of it need."""
    held = leases_of(view, entry.feature_id).keys()
    accepted = [view.get(AcceptedPlan, name) for name in entry.waits_for] if held else []
    needed = {
        name for each in accepted if each for name in locks_for_plan(each.plan, bounds_of(each.plan, policy), policy)
    }
    return needed & held


def _store_waiting(tx: Transaction, entry: QueuedPlan, collisions: tuple[Collision, ...], now: Now) -> FeatureState:
    state = feature_named(tx, entry.feature_id)
    reason = f"Plan {entry.plan.plan_version} waits for {_names_waited_for(entry)}."
    blocked = state if state.status is Status.BLOCKED else with_status(state, Status.BLOCKED, reason=reason)
    after = msgspec.structs.replace(blocked, status_reason=reason, collisions=_collisions_by_kind(collisions))
    return store_feature(tx, state, after, now=now.at)


def _collisions_by_kind(collisions: tuple[Collision, ...]) -> Collisions:
    def of(*kinds: str) -> tuple[dict[str, Json], ...]:
        return tuple(msgspec.to_builtins(each) for each in collisions if each.kind in kinds)

    return Collisions(files=of("file"), areas=of("area"), contracts=of("contract", "migration"))


def _names_waited_for(entry: QueuedPlan) -> str:
    return ", ".join(f"`{name}`" for name in entry.waits_for)


def _other_plans(view: Snapshot, feature_id: FeatureId) -> list[QueuedPlan]:
    return [each for each in waiting_plans(view) if each.feature_id != feature_id]


def _store_queue(tx: Transaction, plans: list[QueuedPlan], now: Now) -> None:
    version = next_version(tx.get(BlockedQueue, BlockedQueue.key))
    ordered = tuple(sorted(plans, key=lambda each: (each.detected_at, each.feature_id)))
    tx.put(BlockedQueue(version=version, plans=ordered), BlockedQueue.key)
    shown = tuple(_index_entry(each) for each in ordered)
    store_index(tx, msgspec.structs.replace(feature_index(tx), blocked_queue=shown), now=now.at)


def _index_entry(entry: QueuedPlan) -> dict[str, Json]:
    """Return a queue entry as `index.json` shows it (AOP-209)."""
    return {
        "feature_id": entry.feature_id,
        "plan_version": entry.plan.plan_version,
        "detected_at": entry.detected_at,
        "collision_fingerprint": entry.collision_fingerprint,
        "required_resources": list(entry.required_resources),
    }
