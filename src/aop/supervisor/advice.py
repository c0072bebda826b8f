"""A model's advice about a plan that collides, where the policy asks for it: one of three words, and never a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from aop.brains.ports import Brain
from aop.brains.prompts import Data, prompt
from aop.core.errors import Refusal
from aop.core.ids import FeatureId

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


class Adviser(Protocol):
    """Somebody who is asked about collisions."""

    def advise(self, feature_id: FeatureId, plan: Mapping[str, Any], error: Mapping[str, Any]) -> Advice | None:
        """Return what is best, or nothing: then the rules decide."""


class NoAdviser:
    """Implements `Adviser` where the rules decide."""

    def advise(self, _feature_id: FeatureId, _plan: Mapping[str, Any], _error: Mapping[str, Any]) -> Advice | None:
        """Say nothing."""
        return None


class ModelAdviser:
    """Implements `Adviser` by asking a model once; one that cannot be asked, or says something else, says nothing."""

    def __init__(self, brain: Callable[[], Brain], new_id: Callable[[str], str]) -> None:
        self._brain = brain
        self._new_id = new_id

    def advise(self, feature_id: FeatureId, plan: Mapping[str, Any], error: Mapping[str, Any]) -> Advice | None:
        """Ask."""
        material = msgspec.json.encode({"plan": plan, "refusal": error}).decode()
        question = prompt(
            _INSTRUCTIONS,
            f"What is best for the plan of `{feature_id}`?",
            [Data(source="plan and refusal", text=material, max_chars=_MOST_CHARS)],
            self._new_id("fence"),
        )
        try:
            return asyncio.run(self._brain().generate_structured(question, Advice, repairs=1)).value
        except Refusal:
            return None
