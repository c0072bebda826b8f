"""Rehearsed brain: a fixed answer for each shape, for demos without a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits
from aop.brains.conversation import TokenCounts
from aop.brains.ports import Answer, Journal, Mission, Once, Outcome, Tools, run_now
from aop.brains.prompts import Prompt
from aop.core.errors import Fault, Json

NAME = "rehearsed:model"

T = TypeVar("T", bound=Struct)


class RehearsedBrain:
    """Implements `aop.brains.ports.Brain`."""

    def __init__(self, answers: Mapping[type[Struct], Json]) -> None:
        self._answers = answers

    async def generate_structured(self, prompt: Prompt, shape: type[T], *, repairs: int = 0) -> Answer[T]:
        """Return the answer of a shape."""
        value = msgspec.convert(self._answers[shape], type=shape)
        return Answer(value=value, model=NAME, usage=TokenCounts(), cost_usd=0.0, seconds=0.0)

    async def run_agentic_loop(
        self, mission: Mission[T], tools: Tools, limits: LoopLimits, journal: Journal, *, once: Once = run_now
    ) -> Outcome[T]:
        """Raise a fault: a loop has no fixed answer."""
        raise Fault("The rehearsed model cannot run a loop.")
