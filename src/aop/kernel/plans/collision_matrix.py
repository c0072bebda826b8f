"""Collision matrix: every place that the plans of several features reach.

A plan entry can only meet entries at its own folder or above it, so each entry is compared with those alone, and the
cost grows with the entries and with what really meets. Only patterns that begin at the same folder are all compared,
most of them by their last names alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.paths.names import PlannedPath, fold_path, overlap, parse_planned
from aop.kernel.config.guarded_areas import GuardedAreas, guarded_areas_of
from aop.kernel.config.policy import Policy
from aop.kernel.plans.collisions import CollisionKind, claims_of, collision_fingerprint, kind_of
from aop.kernel.plans.needed_locks import area_lock
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.port import Claim


class Holder(Struct, frozen=True, kw_only=True, order=True):
    """A plan that reaches a place."""

    feature_id: FeatureId
    planned: str
    """As the plan writes it; for a contract, what it does to it."""
    plan_version: int
    queued: bool
    """True for a plan that waits; false for an accepted one."""


class Recommendation(Struct, frozen=True, kw_only=True):
    action: Literal["acquire_lock", "revise_plan", "shared_prerequisite_feature"]
    """The kind of step to take."""
    message: str
    """The step, as a sentence."""


class SharedPlace(Struct, frozen=True, kw_only=True):
    """One place, and all plans that reach it."""

    kind: CollisionKind
    """The kind of the collision."""
    identifier: str
    """Folded, as the file system that tells the fewest names apart would have it; the narrowest entry that is met."""
    holders: tuple[Holder, ...]
    """All plans that reach it."""
    collision_fingerprint: str
    """The same as long as the same features meet here."""
    recommended_actions: tuple[Recommendation, ...]
    """The changes that would keep the plans apart."""

    @property
    def feature_ids(self) -> tuple[FeatureId, ...]:
        """Return the features that meet here."""
        return features_of(self.holders)


class ComparedPlan(Struct, frozen=True, kw_only=True):
    """A plan that takes part."""

    feature_id: FeatureId
    plan: Plan
    queued: bool = False


_WILDCARDS = re.compile(r"[*?]+")

Place: TypeAlias = tuple[CollisionKind, str]


def locks_of(policy: Policy) -> dict[Place, str]:
    """Return the places that have a lock, with its name."""
    resources = policy.locks.contract_to_resource
    contracts: dict[Place, str] = {
        ("contract", "openapi"): resources.openapi,
        ("contract", "events"): resources.events,
        ("migration", "db"): resources.db,
    }
    return contracts | {("area", fold_path(area.text)): area_lock(area) for area in guarded_areas_of(policy).lockable}


def shared_places(
    plans: Iterable[ComparedPlan], territory: GuardedAreas, locks: Mapping[Place, str]
) -> tuple[SharedPlace, ...]:
    """Return every place that the plans of more than one feature reach, in order."""
    holders: dict[Place, set[Holder]] = defaultdict(set)
    spots: dict[str, _Spot] = {}
    for each in plans:
        for claim in _claims(each, territory):
            holder = Holder(
                feature_id=each.feature_id, planned=claim.text, plan_version=each.plan.plan_version, queued=each.queued
            )
            if claim.kind == "file":
                spots.setdefault(fold_path(claim.text), _Spot(claim)).holders.add(holder)
            else:
                holders[kind_of(claim), claim.key].add(holder)
    for narrow, wide in _meeting_spots(tuple(spots.values())):
        holders["file", narrow.key] |= narrow.holders | wide.holders
    return tuple(
        _shared_place(place, tuple(sorted(sharers)), lock=locks.get(place))
        for place, sharers in sorted(holders.items())
        if len(features_of(sharers)) > 1
    )


def features_of(holders: Iterable[Holder]) -> tuple[FeatureId, ...]:
    """Return the features that hold something, sorted."""
    return tuple(sorted({holder.feature_id for holder in holders}))


def _claims(each: ComparedPlan, territory: GuardedAreas) -> tuple[Claim, ...]:
    files = each.plan.files
    entries = [parse_planned(text) for text in (*files.create, *files.modify, *files.delete)]
    return claims_of(each.feature_id, each.plan, entries, territory)


class _Spot:
    """One entry, shared by all plans that write it in any spelling."""

    def __init__(self, claim: Claim) -> None:
        self.entry = PlannedPath(claim.text)
        self.key = claim.key
        self.stem = fold_path(self.entry.stem)
        self.holders: set[Holder] = set()
        last = fold_path(self.entry.pattern).rpartition("/")[2]
        self.begins, self.ends = _WILDCARDS.split(last)[0], _WILDCARDS.split(last)[-1]

    @property
    def width(self) -> tuple[bool, bool, str]:
        """Sort a file before a folder, and a folder before a pattern."""
        return self.entry.is_glob, self.entry.is_pattern, self.entry.fold

    def may_meet(self, wide: _Spot) -> bool:
        """Exclude most pairs of patterns cheaply: a file that both match has a last name that fits both."""
        if not wide.entry.is_glob or (self.stem == wide.stem and not self.entry.is_pattern):
            # Here one can be a file where the other needs a folder, so the last names do not matter.
            return True
        return (self.begins.startswith(wide.begins) or wide.begins.startswith(self.begins)) and (
            self.ends.endswith(wide.ends) or wide.ends.endswith(self.ends)
        )


def _meeting_spots(spots: Sequence[_Spot]) -> Iterator[tuple[_Spot, _Spot]]:
    """Yield each spot with itself and with every other one that it meets, each pair once, the narrower one first."""
    at: Mapping[str, list[_Spot]] = defaultdict(list)
    for spot in sorted(spots, key=lambda each: each.width):
        at[spot.stem].append(spot)
    for stem, here in at.items():
        above = [other for folder in _folders_above(stem) if folder in at for other in at[folder]]
        for place, spot in enumerate(here):
            yield spot, spot
            for other in (*here[place + 1 :], *above):
                if spot.may_meet(other) and overlap(spot.entry, other.entry):
                    yield spot, other


def _folders_above(stem: str) -> Iterator[str]:
    """Return the folders above a path, without itself; the empty one is the root."""
    parts = stem.split("/") if stem else []
    return ("/".join(parts[:depth]) for depth in range(len(parts)))


def _shared_place(place: Place, holders: tuple[Holder, ...], *, lock: str | None) -> SharedPlace:
    kind, identifier = place
    share = f"Put the common work on `{identifier}` into a separate feature, and merge that first."
    return SharedPlace(
        kind=kind,
        identifier=identifier,
        holders=holders,
        collision_fingerprint=collision_fingerprint([(kind, identifier, name) for name in features_of(holders)]),
        recommended_actions=(
            _separate_them(identifier, lock),
            Recommendation(action="shared_prerequisite_feature", message=share),
        ),
    )


def _separate_them(identifier: str, lock: str | None) -> Recommendation:
    if lock is None:
        revise = f"Revise all of these plans but one, so that they leave `{identifier}` alone."
        return Recommendation(action="revise_plan", message=revise)
    in_turn = f"Let them change `{identifier}` one after the other: each acquires the lock `{lock}` in turn."
    return Recommendation(action="acquire_lock", message=in_turn)
