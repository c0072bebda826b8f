"""Plans that collide and wait: under `collision_policy: block` they are kept, and taken when they collide no more.

The queue is looked at in the transaction that lets something go, oldest first, so that the same history always lets
the same plan in.
"""

from __future__ import annotations

import msgspec

from aop.core.errors import BlockedByCollisionPolicy, Json, Refusal
from aop.core.ids import FeatureId, OperationId
from aop.kernel.config.policy import Policy
from aop.kernel.features.lifecycle import moved, store, store_index, the_index
from aop.kernel.gateway.calls import Call, feature_named
from aop.kernel.locks.grants import free, held_by, lock_on, take
from aop.kernel.locks.leases import Asker, Busy, Grant, Now, ask, now_by
from aop.kernel.plans.acceptance import Weighed, accept, accepted_event, unblocked, weigh
from aop.kernel.plans.checks import bounds_of, check_first, check_revision
from aop.kernel.plans.collisions import Collision, collision_refusal
from aop.kernel.plans.needed_locks import locks_for_plan
from aop.kernel.record.documents.features import TERMINAL, Collisions, FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan, BlockedQueue, Plan, QueuedPlan
from aop.kernel.record.port import Snapshot, Transaction


def waiting_plans(view: Snapshot) -> tuple[QueuedPlan, ...]:
    """Return the plans that wait, in the order in which they are looked at again."""
    queue = view.get(BlockedQueue, BlockedQueue.key)
    return () if queue is None else queue.plans


def when_waiting(view: Snapshot, state: FeatureState) -> tuple[Status, ...]:
    """Return `blocked` if the feature is blocked by its own waiting plan: another plan may take its place."""
    waits = any(each.feature_id == state.feature_id for each in waiting_plans(view))
    return (Status.BLOCKED,) if waits else ()


def block(tx: Transaction, call: Call, state: FeatureState, weighed: Weighed, now: Now) -> BlockedByCollisionPolicy:
    """Keep a plan that collides, and return the answer that says whom it waits for.

    The feature lets go of the locks that those plans need: what it waits for must be able to end.
    """
    entry = _entry(tx, call, state, weighed, now)
    free(tx, call, state.feature_id, _in_the_way(tx, call.kernel.config().policy, entry), now)
    _store_queue(tx, [*_others(tx, state.feature_id), entry], now)
    stored = _store_waiting(tx, entry, weighed.collisions, now)
    told: dict[str, Json] = {"plan_version": entry.plan.plan_version, "waits_for": _named(entry)}
    tx.append(call.event("plan_blocked", state.feature_id, **told, entry=_shown(entry)))
    report = collision_refusal(state.feature_id, weighed.collisions)
    blocked = BlockedByCollisionPolicy(
        f"{report.message} Without that, `{state.feature_id}` would be worked on at the same time;"
        f" now its plan waits for {_named(entry)}.",
        blocked_queue_entry=_shown(entry),
        queue_position=waiting_plans(tx).index(entry) + 1,
        waits_for=list(entry.waits_for),
        version=stored.version,
        status=stored.status,
    )
    blocked.facts.update(report.facts)
    return blocked


def leave_queue(tx: Transaction, feature_id: FeatureId, now: Now) -> None:
    """Take a feature's plan out of the queue, if one waits."""
    others = _others(tx, feature_id)
    if len(others) != len(waiting_plans(tx)):
        _store_queue(tx, others, now)


def follow_status(tx: Transaction, call: Call, state: FeatureState) -> None:
    """Let go of everything that a feature with this status does not need any more, and let in who waited for it."""
    now = now_by(call.kernel.clock)
    if state.status in TERMINAL:
        free(tx, call, state.feature_id, held_by(tx, state.feature_id), now)
    if state.status is not Status.BLOCKED:
        leave_queue(tx, state.feature_id, now)
    reconsider(tx, call)


def reconsider(tx: Transaction, call: Call) -> tuple[FeatureId, ...]:
    """Take every waiting plan that collides no more, oldest first; return whose plans were taken.

    Called by whatever lets go of a lock, a place or a feature, in its own transaction.
    """
    now, taken = now_by(call.kernel.clock), list[FeatureId]()
    # From the beginning each time: a revision that was taken may have let go of what an older plan waits for.
    while any(_leaves(tx, call, entry, now, taken) for entry in waiting_plans(tx)):
        pass
    return tuple(taken)


def _leaves(tx: Transaction, call: Call, entry: QueuedPlan, now: Now, taken: list[FeatureId]) -> bool:
    """Look at one plan again; tell whether it waits no more."""
    state = tx.get(FeatureState, entry.feature_id)
    if state is None:
        leave_queue(tx, entry.feature_id, now)
        return True
    try:
        _check_follows(tx, entry.plan)
        weighed = weigh(tx, state, entry.plan, call.kernel.config(), entry.accounting)
    except Refusal as refusal:
        _turn_away(tx, call, entry, refusal, now)
        return True
    fences = {} if weighed.collisions else _all_locks(tx, call, entry, weighed.locks, now)
    if weighed.collisions or fences is None:
        _wait_on(tx, call, entry, weighed, now)
        return False
    stored = accept(tx, call, feature_named(tx, entry.feature_id), weighed, fences)
    leave_queue(tx, stored.feature_id, now)
    _tell_accepted(tx, call, entry)
    taken.append(stored.feature_id)
    return True


def _check_follows(view: Snapshot, plan: Plan) -> None:
    accepted = view.get(AcceptedPlan, plan.feature_id)
    if plan.revision_of is None:
        check_first(plan, accepted)
    else:
        check_revision(plan, accepted, plan.revision_of)


def _turn_away(tx: Transaction, call: Call, entry: QueuedPlan, refusal: Refusal, now: Now) -> None:
    """Give a plan back that can no longer be taken as it is: the policy or the plan that it revises has changed."""
    leave_queue(tx, entry.feature_id, now)
    state = feature_named(tx, entry.feature_id)
    reason = f"Plan {entry.plan.plan_version} waits no more: {refusal.message}"
    after = msgspec.structs.replace(unblocked(state, reason), collisions=Collisions())
    store(tx, state, after, now=now.at)
    facts: dict[str, Json] = {"plan_version": entry.plan.plan_version, "code": refusal.code, "reason": refusal.message}
    tx.append(call.event("blocked_plan_refused", entry.feature_id, **facts))


def _all_locks(
    tx: Transaction, call: Call, entry: QueuedPlan, resources: tuple[str, ...], now: Now
) -> dict[str, int] | None:
    """Take all locks that a plan needs, or none; nobody who waits for one of them is overtaken."""
    asker = _asker(entry)
    if _holders(tx, call, entry, resources, now):
        return None
    granted = {name: take(tx, call, name, asker, now) for name in resources}
    return {name: grant.lease.fence for name, grant in granted.items() if isinstance(grant, Grant)}


def _holders(
    view: Snapshot, call: Call, entry: QueuedPlan, resources: tuple[str, ...], now: Now
) -> tuple[FeatureId, ...]:
    """Return who holds one of these locks, or waits for one and came first."""
    ttl, is_running = call.kernel.config().policy.locks.lease_ttl_seconds, call.kernel.locks.is_running
    asked = [ask(lock_on(view, name), _asker(entry), now, ttl=ttl, is_running=is_running) for name in resources]
    busy = [each for each in asked if isinstance(each, Busy)]
    holders = [each.lease.feature_id for each in busy if each.lease is not None]
    return tuple(sorted({*holders, *(waiter.feature_id for each in busy for waiter in each.ahead)}))


def _asker(entry: QueuedPlan) -> Asker:
    # No call that waits has this id: the plan stands behind all of them.
    return Asker(
        feature_id=entry.feature_id, actor=entry.submitted_by, operation_id=OperationId(f"queue:{entry.feature_id}")
    )


def _wait_on(tx: Transaction, call: Call, entry: QueuedPlan, weighed: Weighed, now: Now) -> None:
    """Bring what is told of a waiting plan up to date."""
    after = msgspec.structs.replace(
        entry,
        collision_fingerprint=_fingerprint(entry.feature_id, weighed),
        required_resources=weighed.locks,
        waits_for=_colliding(weighed) or _holders(tx, call, entry, weighed.locks, now),
    )
    if after != entry:
        _store_queue(tx, [*_others(tx, entry.feature_id), after], now)
        _store_waiting(tx, after, weighed.collisions, now)


def _tell_accepted(tx: Transaction, call: Call, entry: QueuedPlan) -> None:
    kind, facts = accepted_event(entry.plan, entry.accounting)
    waited: dict[str, Json] = {"waited_since": entry.detected_at, "let_in_by": call.principal.actor}
    event = call.event(kind, entry.feature_id, **facts, **waited)
    # The plan is whose it was when it was submitted; the call that let it in may be anybody's.
    tx.append(msgspec.structs.replace(event, actor=entry.submitted_by))


def _entry(view: Snapshot, call: Call, state: FeatureState, weighed: Weighed, now: Now) -> QueuedPlan:
    same = [
        each.detected_at
        for each in waiting_plans(view)
        if each.feature_id == state.feature_id and each.plan == weighed.plan
    ]
    return QueuedPlan(
        feature_id=state.feature_id,
        plan=weighed.plan,
        submitted_by=call.principal.actor,
        detected_at=same[0] if same else now.at,
        collision_fingerprint=_fingerprint(state.feature_id, weighed),
        required_resources=weighed.locks,
        waits_for=_colliding(weighed),
        accounting=weighed.accounting,
    )


def _fingerprint(feature_id: FeatureId, weighed: Weighed) -> str:
    return str(collision_refusal(feature_id, weighed.collisions).facts["collision_fingerprint"])


def _colliding(weighed: Weighed) -> tuple[FeatureId, ...]:
    return tuple(sorted({each.feature_id for each in weighed.collisions}))


def _in_the_way(view: Snapshot, policy: Policy, entry: QueuedPlan) -> set[str]:
    """Return the locks of the feature that the plans need which it waits for."""
    held = held_by(view, entry.feature_id).keys()
    accepted = [view.get(AcceptedPlan, name) for name in entry.waits_for] if held else []
    needed = {
        name for each in accepted if each for name in locks_for_plan(each.plan, bounds_of(each.plan, policy), policy)
    }
    return needed & held


def _store_waiting(tx: Transaction, entry: QueuedPlan, found: tuple[Collision, ...], now: Now) -> FeatureState:
    state = feature_named(tx, entry.feature_id)
    reason = f"Plan {entry.plan.plan_version} waits for {_named(entry)}."
    blocked = state if state.status is Status.BLOCKED else moved(state, Status.BLOCKED, reason=reason)
    after = msgspec.structs.replace(blocked, status_reason=reason, collisions=_by_kind(found))
    return store(tx, state, after, now=now.at)


def _by_kind(found: tuple[Collision, ...]) -> Collisions:
    def of(*kinds: str) -> tuple[dict[str, Json], ...]:
        return tuple(msgspec.to_builtins(each) for each in found if each.kind in kinds)

    return Collisions(files=of("file"), areas=of("area"), contracts=of("contract", "migration"))


def _named(entry: QueuedPlan) -> str:
    return ", ".join(f"`{name}`" for name in entry.waits_for)


def _others(view: Snapshot, feature_id: FeatureId) -> list[QueuedPlan]:
    return [each for each in waiting_plans(view) if each.feature_id != feature_id]


def _store_queue(tx: Transaction, plans: list[QueuedPlan], now: Now) -> None:
    before = tx.get(BlockedQueue, BlockedQueue.key)
    version = 1 if before is None else before.version + 1
    ordered = tuple(sorted(plans, key=lambda each: (each.detected_at, each.feature_id)))
    tx.put(BlockedQueue(version=version, plans=ordered), BlockedQueue.key)
    shown = tuple(_shown(each) for each in ordered)
    store_index(tx, msgspec.structs.replace(the_index(tx), blocked_queue=shown), now=now.at)


def _shown(entry: QueuedPlan) -> dict[str, Json]:
    """Return a queue entry as `index.json` shows it (AOP-209)."""
    return {
        "feature_id": entry.feature_id,
        "plan_version": entry.plan.plan_version,
        "detected_at": entry.detected_at,
        "collision_fingerprint": entry.collision_fingerprint,
        "required_resources": list(entry.required_resources),
    }
