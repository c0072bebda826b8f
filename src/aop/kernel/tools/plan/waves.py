"""Tool `plan.waves`: what waits for what and why, in waves, and the locks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.kernel.features.specs import dependencies_of, spec_text
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.locks.leases import Now, is_live, read_clock
from aop.kernel.plans.waiting_queue import waiting_plans
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.locks import Lease, Lock
from aop.kernel.record.documents.plans import QueuedPlan

Why = Literal["depends_on", "prerequisite", "collision"]


class Wait(Struct, frozen=True, kw_only=True):
    """A feature that waits for another one."""

    on: str
    """The other feature."""
    why: Why
    """Its spec names it, it needs files that the other makes, or both plans want the same place."""
    places: tuple[str, ...] = ()
    """The places that both plans want."""


class WaveFeature(Struct, frozen=True, kw_only=True):
    """A feature in a wave."""

    feature_id: str
    status: Status
    waits: tuple[Wait, ...]
    """The features that it waits for, and why; empty if it can go on now."""


class LockRow(Struct, frozen=True, kw_only=True):
    """A lock that a feature holds or held."""

    resource: str
    feature_id: str
    holder: str
    """The actor that acquired or renewed it last."""
    fence: int
    """The fencing number of the lease."""
    since: str
    """When it was acquired, in UTC."""
    until: str
    """When it ends unless it is renewed, in UTC."""
    live: bool
    """Whether it holds now; one that ended is free for the next feature."""
    waiters: tuple[str, ...]
    """The features that wait for it, in their order."""


class Waves(Struct, frozen=True, kw_only=True):
    waves: tuple[tuple[WaveFeature, ...], ...]
    """The features that are neither merged nor failed: the first wave can go on now, each other after one before."""
    at_once: int
    """The number of features that the policy lets work at the same time."""
    lost: int
    """How many more could work now if none waited for another: what collisions and dependencies cost."""
    locks: tuple[LockRow, ...]
    """The locks that have a holder."""


def waves(call: Call, _arguments: Arguments) -> Outcome:
    """Sort the features into waves, from specs, plans and prerequisites as they are now."""
    kernel, now = call.kernel, read_clock(call.kernel.clock)
    with kernel.record.read() as view:
        states = [state for state in view.all(FeatureState) if state.status not in TERMINAL]
        queue = {each.feature_id: each for each in waiting_plans(view)}
        locks = list(view.all(Lock))
    seen = [state for state in states if call.principal.reaches(state.feature_id)]
    going = {state.feature_id for state in seen}
    waits = {state.feature_id: tuple(_waits(kernel, state, queue, going)) for state in seen}
    levels = _levels({name: {FeatureId(each.on) for each in found} for name, found in waits.items()})
    rows = [
        tuple(
            WaveFeature(feature_id=state.feature_id, status=state.status, waits=waits[state.feature_id])
            for state in seen
            if levels[state.feature_id] == level
        )
        for level in sorted(set(levels.values()))
    ]
    at_once = kernel.config().policy.supervisor.max_active_features
    free = sum(not found for found in waits.values())
    return Waves(
        waves=tuple(rows),
        at_once=at_once,
        lost=max(0, min(at_once, len(seen)) - free),
        locks=tuple(
            _lock_row(lock, lock.lease, now)
            for lock in locks
            if lock.lease is not None and call.principal.reaches(lock.lease.feature_id)
        ),
    )


def _waits(
    kernel: Kernel, state: FeatureState, queue: Mapping[FeatureId, QueuedPlan], going: set[FeatureId]
) -> Iterator[Wait]:
    for name in _depends_on(kernel, state):
        if name in going:
            yield Wait(on=name, why="depends_on")
    for name in state.waits_for:
        if name in going:
            yield Wait(on=name, why="prerequisite")
    met = (*state.collisions.files, *state.collisions.areas, *state.collisions.contracts)
    for name in queue[state.feature_id].waits_for if state.feature_id in queue else ():
        places = tuple(dict.fromkeys(str(each["identifier"]) for each in met if each.get("feature_id") == name))
        if name in going:
            yield Wait(on=name, why="collision", places=places)


def _depends_on(kernel: Kernel, state: FeatureState) -> tuple[FeatureId, ...]:
    """Return the features that the spec of a feature names; only one that is being planned waits for them."""
    if state.status is not Status.PLANNING:
        return ()
    try:
        return dependencies_of(state.feature_id, spec_text(kernel, state.feature_id) or "")
    except Refusal:
        return ()


def _levels(waits: Mapping[FeatureId, set[FeatureId]]) -> dict[FeatureId, int]:
    """Return the number of each feature's wave; features that wait for each other share the last one."""
    levels: dict[FeatureId, int] = {}
    while len(levels) < len(waits):
        free = [name for name, others in waits.items() if name not in levels and others <= levels.keys()]
        number = len(set(levels.values())) + 1
        levels.update(dict.fromkeys(free or [name for name in waits if name not in levels], number))
    return levels


def _lock_row(lock: Lock, lease: Lease, now: Now) -> LockRow:
    return LockRow(
        resource=lock.resource,
        feature_id=lease.feature_id,
        holder=lease.holder,
        fence=lease.fence,
        since=lease.acquired_at,
        until=lease.expires_at,
        live=is_live(lease, now),
        waiters=tuple(_waiting_features(lock)),
    )


def _waiting_features(lock: Lock) -> Sequence[str]:
    return list(dict.fromkeys(each.feature_id for each in sorted(lock.waiters, key=lambda one: one.ticket)))


TOOLS = (
    Tool(
        name="plan.waves",
        summary="Show which features wait for which and why, as waves, and who holds which lock.",
        arguments=Arguments,
        output=Waves,
        roles=READERS,
        run=waves,
    ),
)
