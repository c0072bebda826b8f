"""A model's advice about a plan that collides, where the policy asks for it: one of three words, and never a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from aop.brains.ports import Brain
from aop.brains.prompts import Data, build_prompt
from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.kernel.record.documents.usage import Usage

_INSTRUCTIONS = (
    "You coordinate features that are built at the same time in one repository. The plan of one collides with that of"
    " another, which was accepted first. Say what is best: `revise` if the plan can do without what the other holds;"
    " `wait` if it needs exactly that, and is best built on it; `prerequisite` if both make the same for the first"
    " time, so that a person should make it a feature of its own. You only advise: nothing is merged or changed by it."
)
_MOST_CHARS = 20_000


class Advice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is best done about a plan that collides."""

    choice: Literal["revise", "wait", "prerequisite"]
    reason: str = ""


class Consultation(Struct, frozen=True, kw_only=True):
    """What came of asking, and what it cost."""

    advice: Advice | None
    """None: nothing that can be used; then the rules decide."""
    usage: Usage
    model: str | None = None


Ask: TypeAlias = Callable[[FeatureId, Mapping[str, Any], Mapping[str, Any]], Consultation]
"""Asks about the plan of a feature, and why it was refused."""


class Adviser(Protocol):
    """Somebody who is asked about collisions."""

    def ready(self) -> Ask | None:
        """Return how to ask; None if nobody is there, and nothing is spent."""


class NoAdviser:
    """Implements `Adviser` where the rules decide."""

    def ready(self) -> Ask | None:
        """Nobody is there."""
        return None


class ModelAdviser:
    """Implements `Adviser` by asking a model once; one that cannot be asked, or says something else, says nothing."""

    def __init__(self, brain: Callable[[], Brain], new_id: Callable[[str], str]) -> None:
        self._brain = brain
        self._new_id = new_id

    def ready(self) -> Ask | None:
        """Return how to ask the model that is configured."""
        try:
            return partial(self._ask, self._brain())
        except Refusal:
            return None

    def _ask(
        self, brain: Brain, feature_id: FeatureId, plan: Mapping[str, Any], error: Mapping[str, Any]
    ) -> Consultation:
        material = msgspec.json.encode({"plan": plan, "refusal": error}).decode()
        question = build_prompt(
            _INSTRUCTIONS,
            f"What is best for the plan of `{feature_id}`?",
            [Data(source="plan and refusal", text=material, max_chars=_MOST_CHARS)],
            self._new_id("fence"),
        )
        try:
            answer = asyncio.run(brain.generate_structured(question, Advice, repairs=1))
        except Refusal as refusal:
            return _unusable(refusal)
        return Consultation(
            advice=answer.value, usage=_usage(msgspec.to_builtins(answer.usage), answer.cost_usd), model=answer.model
        )


def _unusable(refusal: Refusal) -> Consultation:
    """Return what an answer cost that cannot be used, as far as the refusal tells."""
    model, counts, cost = (refusal.facts.get(name) for name in ("model", "usage", "cost_usd"))
    usage = _usage(counts if isinstance(counts, Mapping) else {}, cost)
    return Consultation(advice=None, usage=usage, model=model if isinstance(model, str) else None)


def _usage(counts: Mapping[str, Any], cost_usd: Any) -> Usage:
    return Usage(
        input_tokens=counts.get("input_tokens"),
        output_tokens=counts.get("output_tokens"),
        cached_input_tokens=counts.get("cache_read_tokens"),
        cost_usd=cost_usd,
    )
