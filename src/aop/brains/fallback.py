"""Fallback: several models as one; the first reachable one answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aop.brains.conversation import Model, PassedOver, Reply, Request
from aop.core.errors import Fault, ModelPaymentRequired, ModelRateLimited, ModelUnavailable, ModelUnreachable, Refusal

PASSED_OVER = (ModelUnreachable, ModelRateLimited, ModelPaymentRequired, ModelUnavailable)
"""Failures of the endpoint, not of the request: the next model is asked."""


class FallbackModel:
    """Implements `aop.brains.conversation.Model`."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise Fault("A fallback needs at least one model.")
        self._models = tuple(models)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the models that may answer."""
        return tuple(name for model in self._models for name in model.names)

    async def reply(self, request: Request) -> Reply:
        """Return the first model's reply; the last one's refusal names those before it in `passed_over`."""
        passed: list[PassedOver] = []
        for model in self._models[:-1]:
            try:
                return _with_passed_over(await model.reply(request), passed)
            except PASSED_OVER as refusal:
                passed.append(PassedOver(model=model.names[0], code=refusal.code))
        try:
            return _with_passed_over(await self._models[-1].reply(request), passed)
        except Refusal as refusal:
            if passed:
                refusal.facts["passed_over"] = msgspec.to_builtins(passed)
            raise


def _with_passed_over(reply: Reply, passed: Sequence[PassedOver]) -> Reply:
    return msgspec.structs.replace(reply, passed_over=(*passed, *reply.passed_over)) if passed else reply
