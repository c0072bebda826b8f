"""Reviewer that asks a model."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aop.adapters.models.metering.tallies import turn_usage
from aop.brains.ports import Brain
from aop.kernel.ports.handed_in import NewId
from aop.kernel.ports.reviewer import Opinion, ReviewRequest
from aop.reviews.question import ask_for_report


class ModelReviewer:
    """Implements `aop.kernel.ports.reviewer.Reviewer`."""

    def __init__(self, brain: Callable[[str | None], Brain], new_id: NewId) -> None:
        self._brain = brain
        self._new_id = new_id

    def review(self, wanted: ReviewRequest, model: str) -> Opinion:
        import asyncio

        brain = self._brain(None if model == "default" else model)
        answer = asyncio.run(ask_for_report(brain, wanted, self._new_id("fence")))
        usage = turn_usage(answer.usage, answer.cost_usd)
        return Opinion(report=msgspec.to_builtins(answer.value), model=answer.model, usage=usage)
