"""Advice: a model's one-word opinion on a plan that collides."""

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
    "You coordinate features that are built at the same time in one repository. The plan of one feature collides with"
    " the plan of another, which was accepted first. Choose one: `revise` if the plan can do without what the other"
    " holds; `wait` if it needs exactly that and should build on it; `prerequisite` if both create the same thing for"
    " the first time, so that a person should make it a separate feature. You only advise: your answer merges and"
    " changes nothing."
)
_MOST_CHARS = 20_000


class Advice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's choice for a plan that collides."""

    choice: Literal["revise", "wait", "prerequisite"]
    reason: str = ""


class Consultation(Struct, frozen=True, kw_only=True):
    """The advice, and its cost."""

    advice: Advice | None
    """None: no usable advice; the rules decide."""
    usage: Usage
    model: str | None = None


Ask: TypeAlias = Callable[[FeatureId, Mapping[str, Any], Mapping[str, Any]], Consultation]
"""Takes a feature, its plan and the refusal; returns the consultation."""


class Adviser(Protocol):
    """A source of advice about collisions."""

    def ready(self) -> Ask | None:
        """Return the function to ask with; None if no adviser is available."""


class NoAdviser:
    """Implements `Adviser` without a model: the rules decide."""

    def ready(self) -> Ask | None:
        """Return None."""
        return None


class ModelAdviser:
    """Implements `Adviser` by asking a model once; a failure or an invalid answer gives no advice."""

    def __init__(self, brain: Callable[[], Brain], new_id: Callable[[str], str]) -> None:
        self._brain = brain
        self._new_id = new_id

    def ready(self) -> Ask | None:
        """Return the function that asks the configured model."""
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
    """Return the cost of an unusable answer, as far as the refusal says."""
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
