"""Needed locks: those of a plan or a change, held without a break."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from aop.core.errors import LockNotHeld, StaleLockReclaimed
from aop.core.paths.names import Area, overlap
from aop.kernel.config.guarded_areas import AREA_LOCK, guarded_areas_of
from aop.kernel.config.policy import Policy
from aop.kernel.locks.grants import live_leases, lock_on
from aop.kernel.locks.leases import Now
from aop.kernel.plans.checks import Bounds
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.port import Snapshot

CONTRACTS = ("openapi", "events", "db")


def locks_for_plan(plan: Plan, bounds: Bounds, policy: Policy) -> tuple[str, ...]:
    """Return the locks that a plan needs for its contracts and guarded areas."""
    resource_of = policy.locks.contract_to_resource
    needed = {getattr(resource_of, name) for name in CONTRACTS if getattr(plan.contracts, name) != "none"}
    # A pattern may match more files than it is meant for; those are checked with each patch.
    needed.update(_contract_locks([entry.text for entry in bounds.entries if not entry.is_pattern], policy))
    territory = guarded_areas_of(policy)
    for entry in bounds.entries:
        if not territory.permits(entry.text):
            needed.update(area_lock(area) for area in territory.lockable if overlap(area, entry))
    return tuple(sorted(needed))


def locks_for_paths(paths: Collection[str], policy: Policy) -> tuple[str, ...]:
    """Return the locks that changes of these files need."""
    territory = guarded_areas_of(policy)
    guarded = [path for path in paths if not territory.permits(path)]
    areas = {area_lock(area) for area in territory.lockable for path in guarded if area.covers(path)}
    return tuple(sorted(areas.union(_contract_locks(paths, policy))))


def _contract_locks(paths: Collection[str], policy: Policy) -> Iterator[str]:
    rules = policy.locks
    for name in CONTRACTS:
        globs = [Area(glob) for glob in getattr(rules.contract_paths, name)]
        if any(area.covers(path, fold=True) for path in paths for area in globs):
            yield getattr(rules.contract_to_resource, name)


def area_lock(area: Area) -> str:
    """Return the name of the lock that opens a protected area."""
    return f"{AREA_LOCK}{area.text}"


def check_held(view: Snapshot, state: FeatureState, resources: Collection[str], now: Now) -> dict[str, int]:
    """Return the fencing numbers under which a feature holds these locks. Raises: LockNotHeld."""
    if not resources:
        return {}
    leases = live_leases(view, state.feature_id, now)
    missing = sorted(name for name in resources if name not in leases)
    if missing:
        held = {name: lock_on(view, name).lease for name in missing}
        raise LockNotHeld(
            f"`{state.feature_id}` does not hold: {', '.join(missing)}.",
            resources=missing,
            holders={name: lease.feature_id if lease else None for name, lease in held.items()},
        )
    return {name: leases[name].fence for name in sorted(resources)}


def check_unbroken(view: Snapshot, state: FeatureState, resources: Collection[str], now: Now) -> dict[str, int]:
    """Return the fencing numbers of these locks, if plan and patches relied on them. Raises: StaleLockReclaimed."""
    fences = check_held(view, state, resources, now)
    broken = {name: fence for name, fence in fences.items() if state.locks.relied_on.get(name, fence) != fence}
    if broken:
        raise StaleLockReclaimed(
            f"`{state.feature_id}` did not hold {', '.join(f'`{name}`' for name in broken)} all the time since its work"
            " began: others may have changed what the lock guards.",
            hint="Revise the plan with `plan.update`: it is checked again under the leases that the feature holds now.",
            resources=list(broken),
            relied_on={name: state.locks.relied_on[name] for name in broken},
            current=dict(broken),
        )
    return fences


def with_fences(state: FeatureState, fences: Mapping[str, int]) -> FeatureState:
    """Return the feature, relying on these fencing numbers too."""
    locks = msgspec.structs.replace(state.locks, relied_on={**state.locks.relied_on, **fences})
    return msgspec.structs.replace(state, locks=locks)
