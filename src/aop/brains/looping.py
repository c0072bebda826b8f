"""A model at work with tools: it asks for calls, Python carries them out, and Python says when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from aop.brains.budgets import CallLimits, Limit, Limits, Spent, next_call, reached
from aop.brains.conversation import Model, Observation, Offer, Reply, Request, Said, ToolCall, Turn
from aop.brains.ports import (
    Called,
    Finished,
    Journal,
    LimitReached,
    Mission,
    ModelFailed,
    Observed,
    Outcome,
    Replied,
    T,
    Talked,
    Tools,
)
from aop.brains.prices import Prices
from aop.brains.prompts import Data, data_block
from aop.brains.shapes import read_as, schema_of
from aop.core.clock import Clock
from aop.core.errors import (
    Fault,
    InvalidArguments,
    ModelPriceUnknown,
    ModelReplyCutOff,
    ModelTimeout,
    Refusal,
    UnknownTool,
)
from aop.core.jsontext import MalformedText, parse_json
from aop.core.redaction import Redactor

R = TypeVar("R")

FINISH = "hand_in_result"
NUDGE = Said(text=f"Nothing was called. Call a tool, or hand in the result with `{FINISH}`.")
"""Not every model can be forced to call something: one that only talks is told so, once."""
SHORTEST_WAIT_SECONDS = 0.001


class _Bench(Generic[T]):
    """The tools of one mission under names that every provider takes, and the one that ends it."""

    def __init__(self, mission: Mission[T], tools: Tools) -> None:
        self.mission = mission
        self.tools = tools
        self.real_names = {offer.name.replace(".", "_"): offer.name for offer in tools.offers}
        if len(self.real_names) != len(tools.offers) or FINISH in self.real_names:
            raise Fault("Two tools have the same name, once `.` is `_`.")
        self.offers = tuple(
            Offer(name=alias, description=offer.description, schema=offer.schema)
            for alias, offer in zip(self.real_names, tools.offers, strict=True)
        )
        self.finish = Offer(
            name=FINISH, description="Hand in the result; this ends the work.", schema=schema_of(mission.result)
        )

    def name_of(self, call: ToolCall) -> str:
        """Return the tool that a call is for; what is no tool stands there as the model wrote it, cut short."""
        return self.real_names.get(call.name, call.name[:80])


class _TimeUp(Exception):
    """A model or a tool did not answer before the time of the loop was used up."""


class Loop(Struct, frozen=True, kw_only=True):
    """What a loop works with."""

    model: Model
    prices: Prices
    clock: Clock
    redact: Redactor
    call_limits: CallLimits
    limits: Limits
    journal: Journal

    async def run(self, mission: Mission[T], tools: Tools) -> Outcome[T]:
        """Ask, call, show, until there is a result or something runs out."""
        self._refuse_unknown_prices()
        bench, began, spent = _Bench(mission, tools), self.clock.boot_seconds(), Spent()
        turns: list[Turn] = [Said(text=self.redact.mask_secrets(mission.prompt.text))]
        while (limit := reached(self.limits, spent)) is None:
            try:
                reply = await self._in_time(self.model.reply(self._request(bench, turns, spent)), began)
                allowed, spent = self._allowed(spent), self._counted(spent, reply)
                if reply.cut_off:
                    return self._ended_by_length(reply, allowed, self._until_now(spent, began))
                if _ends_by_talking(mission, reply, turns):
                    return Talked(text=reply.text, spent=self._until_now(spent, began))
                result, shown = await self._answered(bench, reply, began)
            except Refusal as refusal:
                return ModelFailed(error=refusal.as_error(), spent=self._until_now(spent, began))
            except _TimeUp:
                return LimitReached(limit=Limit.TIME, spent=self._until_now(spent, began))
            spent = self._until_now(spent, began)
            if result is not None:
                return Finished(value=result, spent=spent)
            turns += (reply, *shown)
        return LimitReached(limit=limit, spent=spent)

    def _ended_by_length(self, reply: Reply, allowed: CallLimits, spent: Spent) -> LimitReached | ModelFailed:
        """Return what a reply that was cut off means: the tokens of the loop ran out, or it was simply too long."""
        if allowed.max_output_tokens < self.call_limits.max_output_tokens:
            return LimitReached(limit=Limit.TOKENS, spent=spent)
        return ModelFailed(error=cut_off(reply.model, allowed.max_output_tokens).as_error(), spent=spent)

    async def _answered(self, bench: _Bench[T], reply: Reply, began: float) -> tuple[T | None, Sequence[Turn]]:
        """Carry out the calls of a reply in their order, and return what is shown; the first valid result ends it."""
        shown: list[Turn] = []
        for at, call in enumerate(reply.calls):
            self.journal(Called(tool=bench.name_of(call), arguments=self.redact(call.arguments)))
            try:
                if call.name == FINISH:
                    return read_as(bench.mission.result, call.arguments), ()
                answer: str | Refusal = await self._executed(bench, call, began, at)
            except Refusal as refusal:
                answer = refusal
            shown.append(self._shown(bench, call, answer))
        return None, shown or [NUDGE]

    async def _executed(self, bench: _Bench[T], call: ToolCall, began: float, before: int) -> str:
        """Call a tool; what the model cannot have is refused, which it is told."""
        if before >= self.limits.max_calls_in_reply:
            raise Refusal(f"Only {before} calls of one reply are carried out.", hint="Call fewer tools at once.")
        name = bench.real_names.get(call.name)
        if name is None:
            known = ", ".join(sorted([*bench.real_names, FINISH]))
            raise UnknownTool(f"There is no tool `{call.name[:80]}`.", hint=f"There are: {known}.")
        return await self._in_time(bench.tools.execute(name, _arguments(call)), began)

    async def _in_time(self, doing: Awaitable[R], began: float) -> R:
        """Wait for a model or a tool, but not longer than the loop may take."""
        deadline = asyncio.timeout(max(self._seconds_left(began), SHORTEST_WAIT_SECONDS))
        try:
            async with deadline:
                return await doing
        except TimeoutError as error:
            if deadline.expired():
                raise _TimeUp from error
            raise
        except ModelTimeout as error:
            # A model is given no longer than the loop has, so it may be the first to notice.
            if self._seconds_left(began) <= 0:
                raise _TimeUp from error
            raise

    def _seconds_left(self, began: float) -> float:
        return self.limits.max_seconds - (self.clock.boot_seconds() - began)

    def _shown(self, bench: _Bench[T], call: ToolCall, answer: str | Refusal) -> Observation:
        """Tell the journal, and return what the model sees: data, like everything that a tool answers."""
        ok = isinstance(answer, str)
        text = answer if isinstance(answer, str) else f"[{answer.code}] {answer.message} {answer.next_action}"
        name = bench.name_of(call)
        self.journal(Observed(tool=name, ok=ok, text=self.redact(text)))
        data = Data(
            source=f"tool {name}", text=self.redact.mask_secrets(text), max_chars=self.limits.max_observation_chars
        )
        block = data_block(data, bench.mission.prompt.fence)
        return Observation(call_id=call.call_id, name=call.name, text=block, ok=ok)

    def _request(self, bench: _Bench[T], turns: Sequence[Turn], spent: Spent) -> Request:
        allowed = self._allowed(spent)
        return Request(
            instructions=bench.mission.prompt.instructions,
            turns=tuple(turns),
            tools=bench.offers,
            answer=bench.finish,
            text_allowed=bench.mission.text_allowed,
            max_output_tokens=allowed.max_output_tokens,
            timeout_seconds=allowed.timeout_seconds,
            thinking=allowed.thinking,
            fence=bench.mission.prompt.fence,
        )

    def _allowed(self, spent: Spent) -> CallLimits:
        return next_call(self.limits, spent, self.call_limits)

    def _counted(self, spent: Spent, reply: Reply) -> Spent:
        cost = self.prices.cost(reply.model, reply.usage)
        self.journal(
            Replied(
                model=reply.model,
                text=self.redact(reply.text),
                usage=reply.usage,
                cost_usd=cost,
                passed_over=reply.passed_over,
            )
        )
        return spent.with_reply(reply.usage, cost)

    def _until_now(self, spent: Spent, began: float) -> Spent:
        return spent.at(round(self.clock.boot_seconds() - began, 3))

    def _refuse_unknown_prices(self) -> None:
        unknown = [name for name in self.model.names if self.prices.of(name) is None]
        if self.limits.max_cost_usd is not None and unknown:
            raise ModelPriceUnknown(
                f"Nobody knows what `{unknown[0]}` costs, so a cost limit cannot be kept.", models=unknown
            )


def cut_off(model: str, max_output_tokens: int) -> ModelReplyCutOff:
    """Return what a reply is refused with that reached its token limit."""
    return ModelReplyCutOff(f"The reply of `{model}` was cut off at {max_output_tokens} tokens.", model=model)


def _ends_by_talking(mission: Mission[T], reply: Reply, turns: Sequence[Turn]) -> bool:
    return not reply.calls and (mission.text_allowed or not reply.text or turns[-1] == NUDGE)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    hint = "Call the tool again with arguments of its schema."
    try:
        value = parse_json(call.arguments or "{}")
    except MalformedText as problem:
        raise InvalidArguments(f"The arguments cannot be read: {problem.reason}.", hint=hint) from problem
    if not isinstance(value, Mapping):
        raise InvalidArguments("The arguments are no JSON object.", hint=hint)
    return value
