"""A model at work with tools: it asks for calls, Python carries them out, and Python says when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from aop.brains.budgets import CallLimits, Limit, LoopLimits, Spent, next_call, reached
from aop.brains.conversation import Model, Observation, Offer, Reply, Request, Said, ToolCall, Turn
from aop.brains.ports import (
    Called,
    Finished,
    Journal,
    LimitReached,
    Mission,
    ModelFailed,
    Observed,
    Once,
    Outcome,
    Replied,
    T,
    Talked,
    Tools,
    at_once,
)
from aop.brains.prices import Prices
from aop.brains.prompts import Data, data_block
from aop.brains.shapes import read_as, schema_of
from aop.core.clock import Clock
from aop.core.errors import (
    Fault,
    InvalidArguments,
    Json,
    ModelPriceUnknown,
    ModelReplyCutOff,
    ModelTimeout,
    Refusal,
    UnknownTool,
)
from aop.core.redaction.redactor import Redactor
from aop.core.text.json import MalformedText, parse_json

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


class _Watch:
    """The time that a loop has taken, over all the processes that worked on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boot_seconds()

    def seconds(self) -> float:
        """Return how long it has taken by now."""
        return round(self._clock.boot_seconds() - self._began, 3)

    def show(self, seconds: float) -> None:
        """Go on from the time that was recorded."""
        self._began = self._clock.boot_seconds() - seconds


class _Heard(Struct, frozen=True, kw_only=True):
    """What came of asking: a reply, an error, or nothing before the time was up."""

    seconds: float
    reply: Reply | None = None
    error: dict[str, Any] | None = None


class _CarriedOut(Struct, frozen=True, kw_only=True):
    """What came of a call."""

    tool: str
    arguments: str
    ok: bool | None = None
    """None: the time was up before it answered."""
    text: str = ""
    seconds: float


class Loop(Struct, frozen=True, kw_only=True):
    """What a loop works with."""

    model: Model
    prices: Prices
    clock: Clock
    redact: Redactor
    call_limits: CallLimits
    limits: LoopLimits
    journal: Journal
    once: Once = at_once

    async def run(self, mission: Mission[T], tools: Tools) -> Outcome[T]:
        """Ask, call, show, until there is a result or something runs out."""
        self._refuse_unknown_prices()
        bench, watch, spent = _Bench(mission, tools), _Watch(self.clock), Spent()
        turns: list[Turn] = [Said(text=self.redact.mask_secrets(mission.prompt.text))]
        while (limit := reached(self.limits, spent)) is None:
            heard, allowed = await self._heard(bench, turns, spent, watch), self._allowed(spent)
            if heard.reply is None:
                return _unanswered(heard, spent.at(heard.seconds))
            reply, spent = heard.reply, self._counted(spent, heard.reply).at(heard.seconds)
            if reply.cut_off:
                return self._ended_by_length(reply, allowed, spent)
            if _ends_by_talking(mission, reply, turns):
                return Talked(text=reply.text, spent=spent)
            try:
                result, shown = await self._answered(bench, reply, watch, spent.iterations)
            except _TimeUp:
                return LimitReached(limit=Limit.TIME, spent=spent.at(watch.seconds()))
            spent = spent.at(watch.seconds())
            if result is not None:
                return Finished(value=result, spent=spent)
            turns += (reply, *shown)
        return LimitReached(limit=limit, spent=spent)

    async def _heard(self, bench: _Bench[T], turns: Sequence[Turn], spent: Spent, watch: _Watch) -> _Heard:
        async def ask() -> Json:
            reply, error = None, None
            try:
                reply = await self._in_time(self.model.reply(self._request(bench, turns, spent)), watch)
            except Refusal as refusal:
                error = refusal.as_error()
            except _TimeUp:
                pass
            told: Json = msgspec.to_builtins(_Heard(seconds=watch.seconds(), reply=reply, error=error))
            return told

        heard = msgspec.convert(await self.once(f"reply_{spent.iterations + 1}", ask), type=_Heard)
        watch.show(heard.seconds)
        return heard

    def _ended_by_length(self, reply: Reply, allowed: CallLimits, spent: Spent) -> LimitReached | ModelFailed:
        """Return what a reply that was cut off means: the tokens of the loop ran out, or it was simply too long."""
        if allowed.max_output_tokens < self.call_limits.max_output_tokens:
            return LimitReached(limit=Limit.TOKENS, spent=spent)
        return ModelFailed(error=cut_off(reply.model, allowed.max_output_tokens).as_error(), spent=spent)

    async def _answered(
        self, bench: _Bench[T], reply: Reply, watch: _Watch, turn: int
    ) -> tuple[T | None, Sequence[Turn]]:
        """Carry out the calls of a reply in their order, and return what is shown; the first valid result ends it."""
        shown: list[Turn] = []
        for at, call in enumerate(reply.calls):
            self.journal(Called(tool=bench.name_of(call), arguments=self.redact(call.arguments)))
            if call.name != FINISH:
                answer = await self._carried_out(bench, call, watch, (turn, at))
            else:
                try:
                    return read_as(bench.mission.result, call.arguments), ()
                except Refusal as refusal:
                    answer = _refused(bench.name_of(call), call, refusal, watch)
            shown.append(self._shown(bench, call, answer))
        return None, shown or [NUDGE]

    async def _carried_out(self, bench: _Bench[T], call: ToolCall, watch: _Watch, at: tuple[int, int]) -> _CarriedOut:
        name = bench.name_of(call)

        async def execute() -> Json:
            try:
                text = await self._executed(bench, call, watch, at[1])
                done = _CarriedOut(tool=name, arguments=call.arguments, ok=True, text=text, seconds=watch.seconds())
            except Refusal as refusal:
                done = _refused(name, call, refusal, watch)
            except _TimeUp:
                done = _CarriedOut(tool=name, arguments=call.arguments, seconds=watch.seconds())
            told: Json = msgspec.to_builtins(done)
            return told

        done = msgspec.convert(await self.once(f"call_{at[0]}_{at[1] + 1}", execute), type=_CarriedOut)
        watch.show(done.seconds)
        if done.ok is None:
            raise _TimeUp
        return done

    async def _executed(self, bench: _Bench[T], call: ToolCall, watch: _Watch, before: int) -> str:
        """Call a tool; what the model cannot have is refused, which it is told."""
        if before >= self.limits.max_calls_in_reply:
            raise Refusal(f"Only {before} calls of one reply are carried out.", hint="Call fewer tools at once.")
        name = bench.real_names.get(call.name)
        if name is None:
            known = ", ".join(sorted([*bench.real_names, FINISH]))
            raise UnknownTool(f"There is no tool `{call.name[:80]}`.", hint=f"There are: {known}.")
        return await self._in_time(bench.tools.execute(name, _arguments(call)), watch)

    async def _in_time(self, doing: Awaitable[R], watch: _Watch) -> R:
        """Wait for a model or a tool, but not longer than the loop may take."""
        deadline = asyncio.timeout(max(self._seconds_left(watch), SHORTEST_WAIT_SECONDS))
        try:
            async with deadline:
                return await doing
        except TimeoutError as error:
            if deadline.expired():
                raise _TimeUp from error
            raise
        except ModelTimeout as error:
            # A model is given no longer than the loop has, so it may be the first to notice.
            if self._seconds_left(watch) <= 0:
                raise _TimeUp from error
            raise

    def _seconds_left(self, watch: _Watch) -> float:
        return self.limits.max_seconds - watch.seconds()

    def _shown(self, bench: _Bench[T], call: ToolCall, answer: _CarriedOut) -> Observation:
        """Tell the journal, and return what the model sees: data, like everything that a tool answers."""
        self.journal(Observed(tool=answer.tool, ok=bool(answer.ok), text=self.redact(answer.text)))
        data = Data(
            source=f"tool {answer.tool}",
            text=self.redact.mask_secrets(answer.text),
            max_chars=self.limits.max_observation_chars,
        )
        block = data_block(data, bench.mission.prompt.fence)
        return Observation(call_id=call.call_id, name=call.name, text=block, ok=bool(answer.ok))

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

    def _refuse_unknown_prices(self) -> None:
        unknown = [name for name in self.model.names if self.prices.of(name) is None]
        if self.limits.max_cost_usd is not None and unknown:
            raise ModelPriceUnknown(
                f"Nobody knows what `{unknown[0]}` costs, so a cost limit cannot be kept.", models=unknown
            )


def cut_off(model: str, max_output_tokens: int) -> ModelReplyCutOff:
    """Return what a reply is refused with that reached its token limit."""
    return ModelReplyCutOff(f"The reply of `{model}` was cut off at {max_output_tokens} tokens.", model=model)


def _unanswered(heard: _Heard, spent: Spent) -> ModelFailed | LimitReached:
    if heard.error is None:
        return LimitReached(limit=Limit.TIME, spent=spent)
    return ModelFailed(error=heard.error, spent=spent)


def _refused(name: str, call: ToolCall, refusal: Refusal, watch: _Watch) -> _CarriedOut:
    text = f"[{refusal.code}] {refusal.message} {refusal.next_action}"
    return _CarriedOut(tool=name, arguments=call.arguments, ok=False, text=text, seconds=watch.seconds())


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
