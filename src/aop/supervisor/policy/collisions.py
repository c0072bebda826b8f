"""The orchestrator's rules: what becomes of a plan that collides, and which ready feature a person looks at first.

Pure functions of what tools said, and of what a model advised where the policy asks one; it only ever proposes, and no
tool is within its reach.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.paths.names import folded
from aop.kernel.config.policy import CollisionStrategy
from aop.kernel.features.opened_paths import YES
from aop.kernel.record.documents.questions import Prerequisite
from aop.supervisor.workers import ToolResult


class Revise(Struct, frozen=True, kw_only=True):
    """The planner plans anew."""

    instructions: str


class WaitFor(Struct, frozen=True, kw_only=True):
    """The feature waits until those in its way are merged, changed or given up."""

    reason: str
    features: tuple[str, ...]


class AskAbout(Struct, frozen=True, kw_only=True):
    """A person says how to plan."""

    question: str
    features: tuple[str, ...]
    prerequisite: Prerequisite | None = None
    """What a yes makes a feature of its own; None where the plans share nothing that they would both make."""


Ruling: TypeAlias = Revise | WaitFor | AskAbout

REVISE = "Another feature holds what the last result names. Plan around it, and submit the whole plan again."


def strategy_in_force(strategy: CollisionStrategy, result: ToolResult) -> CollisionStrategy:
    """Return what the policy says, or what a model advised with the result, if the policy leaves it to one."""
    if strategy is not CollisionStrategy.MODEL:
        return strategy
    advice = result.data.get("advice") if isinstance(result.data, Mapping) else None
    # A shared prerequisite is a person's to accept.
    chosen = {"wait": CollisionStrategy.WAIT, "prerequisite": CollisionStrategy.ASK}
    return chosen.get(str(advice), CollisionStrategy.REVISE)


def arbitrate(
    strategy: CollisionStrategy, error: Mapping[str, Any], plan: Mapping[str, Any], *, revised: bool
) -> Ruling:
    """Decide about a plan that collides (AOP-264): revised once, waiting, or a person's to decide; then it waits.

    What both features would make for the first time is a prerequisite of both: the one that came first makes it.
    """
    details = error.get("details", {})
    others = tuple(details.get("conflicting_feature_ids", ()))
    shared = shared_prerequisites(details.get("collisions", ()), plan)
    if revised or strategy is CollisionStrategy.WAIT:
        return WaitFor(reason=f"{error['message']}{_goes_first(shared, others)}", features=others)
    if strategy is CollisionStrategy.ASK:
        offer = _offered(shared, plan, details.get("collisions", ()))
        return AskAbout(question=_question(str(error["message"]), offer, others), features=others, prerequisite=offer)
    return Revise(instructions=_build_on(shared, others) if shared else REVISE)


def shared_prerequisites(collisions: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that both sides of a collision would make: neither can begin with them already there."""
    made = {folded(str(path)) for path in plan.get("files", {}).get("create", ())}
    return tuple(sorted({str(each["held_as"]) for each in collisions if folded(str(each["held_as"])) in made}))


def _named(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _goes_first(shared: Sequence[str], others: Sequence[str]) -> str:
    return f" Both make {_named(shared)}: {_named(others)} goes first." if shared else ""


def _build_on(shared: Sequence[str], others: Sequence[str]) -> str:
    return (
        f"{_named(others)} makes {_named(shared)} as well: a prerequisite of both. Leave that to {_named(others)}, and"
        " plan the rest without it. If nothing is left that way, submit the same plan again: then it waits until"
        f" {_named(others)} is merged."
    )


def _offered(
    shared: Sequence[str], plan: Mapping[str, Any], collisions: Sequence[Mapping[str, Any]]
) -> Prerequisite | None:
    """Return what both make as a feature of its own; the same files always make the same one."""
    if not shared:
        return None
    holders = {FeatureId(str(each["feature_id"])) for each in collisions if str(each["held_as"]) in shared}
    stem = re.sub("[^a-z0-9]+", "-", PurePosixPath(shared[0]).stem.casefold())[:30].strip("-")
    digest = hashlib.sha256("\0".join(folded(path) for path in shared).encode()).hexdigest()[:8]
    return Prerequisite(
        feature_id="-".join(filter(None, ["shared", stem, digest])),
        files=tuple(shared),
        needed_by=(*sorted(holders), FeatureId(str(plan["feature_id"]))),
        summary=str(plan.get("summary", ""))[:1000],
    )


def _question(message: str, offer: Prerequisite | None, others: Sequence[str]) -> str:
    split = (
        f" Both make {_named(offer.files)}. `{YES}` makes that a feature of its own, `{offer.feature_id}`:"
        f" {_named(offer.needed_by)} begin anew when it is merged, and what they have built by then is set aside."
        " Otherwise:"
        if offer
        else ""
    )
    return f"{message}{split} Should it plan around {_named(others)}, and how, or wait?"


# --- the order of work ---------------------------------------------------------------------------


class NextStep(Struct, frozen=True, kw_only=True):
    """A feature that only a person can bring on, and who waits for that."""

    feature_id: FeatureId
    commands: tuple[str, ...]
    unblocks: tuple[FeatureId, ...]


def next_steps(ready: Sequence[FeatureId], waits_for: Mapping[FeatureId, Sequence[str]]) -> tuple[NextStep, ...]:
    """Return what a person does next with what is ready: first that which most others wait for."""
    unblocked = {name: tuple(sorted(each for each, others in waits_for.items() if name in others)) for name in ready}
    return tuple(
        NextStep(
            feature_id=name,
            commands=(f"aop review {name}", f"aop approve {name}", f"aop merge {name}"),
            unblocks=unblocked[name],
        )
        for name in sorted(ready, key=lambda name: (-len(unblocked[name]), name))
    )
