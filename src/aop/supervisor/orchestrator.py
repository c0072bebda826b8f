"""The orchestrator's rules: what becomes of a plan that collides, and which ready feature a person looks at first.

Pure functions of what tools said, and of what a model advised where the policy asks one; it only ever proposes, and no
tool is within its reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.config_models import CollisionStrategy
from aop.kernel.paths import folded
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
        return AskAbout(question=_question(str(error["message"]), shared, others), features=others)
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


def _question(message: str, shared: Sequence[str], others: Sequence[str]) -> str:
    split = (
        f" Both make {_named(shared)}: it may become a feature of its own, which both name in `depends_on`."
        if shared
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
