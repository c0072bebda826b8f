"""Collisions: claims of two plans that cannot be worked on at the same time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.errors import CollisionDetected, Json
from aop.core.ids import FeatureId
from aop.core.paths.names import PlannedPath, fold_path, overlap
from aop.core.text.json import canonical_json
from aop.kernel.config.guarded_areas import GuardedAreas
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.port import Claim, Snapshot

CollisionKind = Literal["file", "area", "contract", "migration"]


class Collision(Struct, frozen=True, kw_only=True, order=True):
    """One place that two plans both want."""

    kind: CollisionKind
    identifier: str
    feature_id: FeatureId
    """Whose accepted plan holds it."""
    held_as: str
    recommended_action: str


def claims_of(
    feature_id: FeatureId, plan: Plan, entries: Sequence[PlannedPath], territory: GuardedAreas
) -> tuple[Claim, ...]:
    """Return what a plan with these parsed entries holds against the plans that come later."""
    files = [
        Claim(feature_id=feature_id, kind="file", key=entry.fold.rstrip("/"), text=entry.text, is_pattern=entry.is_glob)
        for entry in entries
    ]
    areas = {area.text for entry in entries for area in territory.exclusive_areas_of(entry)}
    held = [Claim(feature_id=feature_id, kind="area", key=fold_path(text), text=text) for text in sorted(areas)]
    contracts = [
        Claim(feature_id=feature_id, kind="contract", key=name, text=change)
        for name, change in sorted(msgspec.structs.asdict(plan.contracts).items())
        if change != "none"
    ]
    return (*files, *held, *contracts)


def collisions_with_others(view: Snapshot, feature_id: FeatureId, claims: Sequence[Claim]) -> tuple[Collision, ...]:
    """Compare a plan's claims with those of all other accepted plans; costs what the plan costs, not what all do."""
    collisions = {
        _collision(claim, other)
        for kind in ("file", "area", "contract")
        for claim in claims
        if claim.kind == kind
        for other in view.claims_near(kind, [_search_key(claim)])
        if other.feature_id != feature_id and _do_meet(claim, other)
    }
    return tuple(sorted(collisions))


def collision_refusal(feature_id: FeatureId, collisions: Sequence[Collision]) -> CollisionDetected:
    """Return the refusal that lists all collisions of a plan (AOP-212)."""
    others = sorted({each.feature_id for each in collisions})
    facts = [(each.kind, each.identifier, each.feature_id) for each in collisions]
    return CollisionDetected(
        f"The plan of `{feature_id}` collides with the accepted plan of {', '.join(f'`{name}`' for name in others)}.",
        conflicting_feature_ids=list(others),
        collisions=[msgspec.to_builtins(each) for each in collisions],
        collision_fingerprint=collision_fingerprint(facts),
        suggested_next_actions=sorted({each.recommended_action for each in collisions}),
    )


def collision_fingerprint(facts: Sequence[Sequence[str]]) -> str:
    """Return a hash that is equal for equal collisions, in any order."""
    unique: list[Json] = [list(fact) for fact in sorted({tuple(fact) for fact in facts})]
    return hashlib.sha256(canonical_json(unique)).hexdigest()


def kind_of(claim: Claim) -> CollisionKind:
    """Return the kind of collision when two plans have this claim."""
    return "migration" if (claim.kind, claim.key) == ("contract", "db") else claim.kind


def _search_key(claim: Claim) -> str:
    return fold_path(PlannedPath(claim.text).stem) if claim.is_pattern else claim.key


def _do_meet(claim: Claim, other: Claim) -> bool:
    if claim.kind == "file":
        return overlap(PlannedPath(claim.text), PlannedPath(other.text))
    return claim.key == other.key


def _collision(claim: Claim, other: Claim) -> Collision:
    action = f"Revise the plan so that it leaves `{other.text}` alone, or wait until `{other.feature_id}` is merged."
    if claim.kind == "contract":
        action = f"Acquire the lock for `{claim.key}` after `{other.feature_id}`, or share one feature for it."
    return Collision(
        kind=kind_of(claim),
        identifier=claim.key,
        feature_id=other.feature_id,
        held_as=other.text,
        recommended_action=action,
    )
