"""Collisions: rules for plans that meet, and the order in which a person reviews."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.paths.names import fold_path
from aop.kernel.config.policy import CollisionStrategy
from aop.kernel.features.opened_paths import YES
from aop.kernel.record.documents.questions import Prerequisite
from aop.supervisor.workers import ToolResult


class Revise(Struct, frozen=True, kw_only=True):
    """The planner submits another plan."""

    instructions: str


class WaitFor(Struct, frozen=True, kw_only=True):
    """The feature waits until the conflicting features are merged, changed or dropped."""

    reason: str
    features: tuple[str, ...]


class AskAbout(Struct, frozen=True, kw_only=True):
    """A person decides how to plan."""

    question: str
    features: tuple[str, ...]
    prerequisite: Prerequisite | None = None
    """The feature that a yes creates; None where both plans create no common file."""


Ruling: TypeAlias = Revise | WaitFor | AskAbout

REVISE = "Another feature holds the files that the last result names. Plan without them; submit the whole plan again."


def strategy_in_force(strategy: CollisionStrategy, result: ToolResult) -> CollisionStrategy:
    """Return the policy's strategy, or the one that a model advised where the policy asks a model."""
    if strategy is not CollisionStrategy.MODEL:
        return strategy
    advice = result.data.get("advice") if isinstance(result.data, Mapping) else None
    # Only a person may accept a shared prerequisite.
    chosen = {"wait": CollisionStrategy.WAIT, "prerequisite": CollisionStrategy.ASK}
    return chosen.get(str(advice), CollisionStrategy.REVISE)


def arbitrate(
    strategy: CollisionStrategy, error: Mapping[str, Any], plan: Mapping[str, Any], *, revised: bool
) -> Ruling:
    """Decide about a plan that collides (AOP-264): revise once, wait, or ask a person; after a revision it waits."""
    # A file that both features would create is a prerequisite of both: the plan that was accepted first creates it.
    details = error.get("details", {})
    others = tuple(details.get("conflicting_feature_ids", ()))
    shared = shared_prerequisites(details.get("collisions", ()), plan)
    if revised or strategy is CollisionStrategy.WAIT:
        return WaitFor(reason=f"{error['message']}{_order_sentence(shared, others)}", features=others)
    if strategy is CollisionStrategy.ASK:
        offer = _prerequisite_of(shared, plan, details.get("collisions", ()))
        return AskAbout(
            question=_collision_question(str(error["message"]), offer, others), features=others, prerequisite=offer
        )
    return Revise(instructions=_shared_file_instructions(shared, others) if shared else REVISE)


def shared_prerequisites(collisions: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that both sides of a collision would create."""
    made = {fold_path(str(path)) for path in plan.get("files", {}).get("create", ())}
    return tuple(sorted({str(each["held_as"]) for each in collisions if fold_path(str(each["held_as"])) in made}))


def _quoted_list(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _order_sentence(shared: Sequence[str], others: Sequence[str]) -> str:
    return f" Both create {_quoted_list(shared)}: {_quoted_list(others)} goes first." if shared else ""


def _shared_file_instructions(shared: Sequence[str], others: Sequence[str]) -> str:
    return (
        f"{_quoted_list(others)} also creates {_quoted_list(shared)}, a prerequisite of both. Leave it to"
        f" {_quoted_list(others)} and plan the rest without it. If nothing is left, submit the same plan again: it then"
        f" waits until {_quoted_list(others)} is merged."
    )


def _prerequisite_of(
    shared: Sequence[str], plan: Mapping[str, Any], collisions: Sequence[Mapping[str, Any]]
) -> Prerequisite | None:
    """Return the common files as a separate feature; the same files always give the same feature."""
    if not shared:
        return None
    holders = {FeatureId(str(each["feature_id"])) for each in collisions if str(each["held_as"]) in shared}
    stem = re.sub("[^a-z0-9]+", "-", PurePosixPath(shared[0]).stem.casefold())[:30].strip("-")
    digest = hashlib.sha256("\0".join(fold_path(path) for path in shared).encode()).hexdigest()[:8]
    return Prerequisite(
        feature_id="-".join(filter(None, ["shared", stem, digest])),
        files=tuple(shared),
        needed_by=(*sorted(holders), FeatureId(str(plan["feature_id"]))),
        summary=str(plan.get("summary", ""))[:1000],
    )


def _collision_question(message: str, offer: Prerequisite | None, others: Sequence[str]) -> str:
    split = (
        f" Both create {_quoted_list(offer.files)}. `{YES}` makes that a separate feature, `{offer.feature_id}`:"
        f" {_quoted_list(offer.needed_by)} start over when it is merged, and their work until then is set aside."
        " Otherwise:"
        if offer
        else ""
    )
    return f"{message}{split} Should it plan without the files of {_quoted_list(others)}, and how, or wait?"


class NextStep(Struct, frozen=True, kw_only=True):
    """A feature that needs a person, and the features that wait for it."""

    feature_id: FeatureId
    commands: tuple[str, ...]
    unblocks: tuple[FeatureId, ...]


def next_steps(ready: Sequence[FeatureId], waits_for: Mapping[FeatureId, Sequence[str]]) -> tuple[NextStep, ...]:
    """Return the next commands for ready features: first those that most others wait for."""
    unblocked = {name: tuple(sorted(each for each, others in waits_for.items() if name in others)) for name in ready}
    return tuple(
        NextStep(
            feature_id=name,
            commands=(f"aop review {name}", f"aop merge {name}"),
            unblocks=unblocked[name],
        )
        for name in sorted(ready, key=lambda name: (-len(unblocked[name]), name))
    )
