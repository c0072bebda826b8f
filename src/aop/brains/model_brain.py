"""Model brain: validated answers, counted usage, and prompts without secrets."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.brains.budgets import CallLimits, LoopLimits, LoopUsage
from aop.brains.conversation import Model, Observation, Offer, Reply, Request, ToolCall, UserText
from aop.brains.ports import Answer, Journal, Mission, Once, Outcome, T, Tools, run_now
from aop.brains.prices import Prices
from aop.brains.prompts import Prompt
from aop.brains.shapes import read_as, schema_of
from aop.brains.tool_loop import ToolLoop, cut_off_refusal
from aop.core.clock import Clock
from aop.core.errors import ModelAnswerInvalid, ModelReplyCutOff, Refusal
from aop.core.redaction.redactor import Redactor

ANSWER = "give_answer"


class ModelBrain:
    """Implements `aop.brains.ports.Brain`."""

    def __init__(self, model: Model, prices: Prices, clock: Clock, redact: Redactor, limits: CallLimits) -> None:
        self._model = model
        self._prices = prices
        self._clock = clock
        self._redact = redact
        self._limits = limits

    async def generate_structured(self, prompt: Prompt, shape: type[T], *, repairs: int = 0) -> Answer[T]:
        """Return a valid answer; see the port."""
        began, spent, request = self._clock.boot_seconds(), LoopUsage(), self._request(prompt, shape)
        while True:
            reply = await self._model.reply(request)
            spent = spent.with_reply(reply.usage, self._prices.cost(reply.model, reply.usage))
            try:
                value = read_as(shape, _only_answer(reply, request).arguments)
            except (ModelAnswerInvalid, ModelReplyCutOff) as refusal:
                if isinstance(refusal, ModelReplyCutOff) or spent.iterations > repairs:
                    raise self._with_usage(refusal, reply, spent) from refusal
                request = _repair_request(request, reply, refusal)
                continue
            return Answer(
                value=value,
                model=reply.model,
                usage=spent.usage,
                cost_usd=spent.cost_usd,
                seconds=round(self._clock.boot_seconds() - began, 3),
                calls=spent.iterations,
                passed_over=reply.passed_over,
            )

    async def run_agentic_loop(
        self, mission: Mission[T], tools: Tools, limits: LoopLimits, journal: Journal, *, once: Once = run_now
    ) -> Outcome[T]:
        """Run a loop with tools; see the port."""
        loop = ToolLoop(
            model=self._model,
            prices=self._prices,
            clock=self._clock,
            redact=self._redact,
            call_limits=self._limits,
            limits=limits,
            journal=journal,
            once=once,
        )
        return await loop.run(mission, tools)

    def _request(self, prompt: Prompt, shape: type[Struct]) -> Request:
        return Request(
            instructions=prompt.instructions,
            turns=(UserText(text=self._redact.mask_secrets(prompt.text)),),
            answer=Offer(
                name=ANSWER, description="Give the answer. It is the only way to reply.", schema=schema_of(shape)
            ),
            max_output_tokens=self._limits.max_output_tokens,
            timeout_seconds=self._limits.timeout_seconds,
            thinking=self._limits.thinking,
            fence=prompt.fence,
        )

    def _with_usage(self, refusal: Refusal, reply: Reply, spent: LoopUsage) -> Refusal:
        return type(refusal)(
            self._redact(refusal.message),
            model=reply.model,
            calls=spent.iterations,
            usage=msgspec.to_builtins(spent.usage),
            cost_usd=spent.cost_usd,
        )


def _only_answer(reply: Reply, request: Request) -> ToolCall:
    if reply.cut_off:
        raise cut_off_refusal(reply.model, request.max_output_tokens)
    if len(reply.calls) == 1 and reply.calls[0].name == ANSWER:
        return reply.calls[0]
    what = f"{len(reply.calls)} calls" if reply.calls else "text" if reply.text else "nothing"
    raise ModelAnswerInvalid(f"`{reply.model}` replied with {what} instead of one answer.")


def _repair_request(request: Request, reply: Reply, invalid: ModelAnswerInvalid) -> Request:
    """Return the request that asks again after an invalid answer; each call needs a result."""
    why = f"{invalid.message} Give the answer again, following the schema."
    results = tuple(Observation(call_id=call.call_id, name=call.name, text=why, ok=False) for call in reply.calls)
    # Providers reject an empty reply in the history.
    replied = (reply,) if reply.calls or reply.text else ()
    return msgspec.structs.replace(request, turns=(*request.turns, *replied, *(results or (UserText(text=why),))))
