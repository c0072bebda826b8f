"""Tool loop: a model requests calls, AOP executes them until a result or a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from aop.brains import ports
from aop.brains.budgets import CallLimits, Limit, LoopLimits, LoopUsage, limit_reached, next_call_limits
from aop.brains.conversation import Model, Observation, Offer, Reply, Request, ToolCall, Turn, UserText
from aop.brains.ports import Mission, T, Tools
from aop.brains.prices import Prices
from aop.brains.prompts import Data, data_block
from aop.brains.shapes import read_as, schema_of
from aop.core import errors
from aop.core.clock import Clock
from aop.core.errors import Json, Refusal
from aop.core.redaction.redactor import Redactor
from aop.core.text.json import MalformedText, parse_json

R = TypeVar("R")

SHORTEST_WAIT_SECONDS = 0.001
CUT_OFF = (
    "Your last reply was too long and was cut off; nothing of it was carried out. Reply again in smaller pieces:"
    " shorter files, and fewer calls in one reply."
)


class _Toolbox(Generic[T]):
    """The tools of one mission, under names that every provider accepts, and the tool that ends it."""

    def __init__(self, mission: Mission[T], tools: Tools) -> None:
        self.mission = mission
        self.tools = tools
        self.real_names = {offer.name.replace(".", "_"): offer.name for offer in tools.offers}
        self.steered = mission.steering is not None
        if len(self.real_names) != len(tools.offers) or mission.finish in self.real_names:
            raise errors.Fault("Two tools have the same name after `.` is replaced by `_`.")
        self.offers = tuple(
            Offer(name=alias, description=offer.description, schema=offer.schema)
            for alias, offer in zip(self.real_names, tools.offers, strict=True)
        )
        self.finish = _finish_of(mission) if mission.finish else None
        hand_in = f", or hand in the result with `{mission.finish}`" if self.finish else ""
        self.nudge = UserText(text=f"You called no tool. Call a tool{hand_in}.")
        """Not every model can be forced to call a tool: one that replies with text is reminded once."""

    def name_of(self, call: ToolCall) -> str:
        """Return the tool of a call; an unknown name is returned as the model wrote it, shortened."""
        return self.real_names.get(call.name, call.name[:80])

    def result_of(self, reply: Reply) -> T | None:
        """Return the result that a reply without a call is, if its mission can read one from text."""
        if reply.calls or self.mission.from_text is None:
            return None
        return self.mission.from_text(reply.text)

    def accept(self, arguments: str) -> T:
        """Return the result that is handed in. Raises: Refusal, which the model is shown."""
        value = read_as(self.mission.result, arguments)
        if self.mission.check is not None:
            self.mission.check(value)
        return value

    def ends_by_talking(self, reply: Reply, turns: Sequence[Turn]) -> bool:
        """Tell whether a reply without a call ends the loop without a result."""
        if reply.calls or self.steered:
            return False
        return self.mission.text_allowed or not reply.text or turns[-1] == self.nudge


class _TimeUp(Exception):
    """The time of the loop ran out while a model or a tool was working."""


class _Stopwatch:
    """The time that a loop has taken, across restarts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boot_seconds()

    def seconds(self) -> float:
        """Return the seconds so far."""
        return round(self._clock.boot_seconds() - self._began, 3)

    def resume_at(self, seconds: float) -> None:
        """Continue from a recorded time."""
        self._began = self._clock.boot_seconds() - seconds


class _ModelAnswer(Struct, frozen=True, kw_only=True):
    """A reply, an error, or neither if the time ran out."""

    seconds: float
    reply: Reply | None = None
    error: dict[str, Any] | None = None


class _CallResult(Struct, frozen=True, kw_only=True):
    """The result of a tool call."""

    tool: str
    arguments: str
    ok: bool | None = None
    """None: the time ran out before it answered."""
    text: str = ""
    seconds: float


class ToolLoop(Struct, frozen=True, kw_only=True):
    """The parts and limits of a loop."""

    model: Model
    prices: Prices
    clock: Clock
    redact: Redactor
    call_limits: CallLimits
    limits: LoopLimits
    journal: ports.Journal
    once: ports.Once = ports.run_now

    async def run(self, mission: Mission[T], tools: Tools) -> ports.Outcome[T]:
        """Ask the model and execute its calls until there is a result or a limit is reached."""
        self._refuse_unknown_prices()
        toolbox, watch, spent = _Toolbox(mission, tools), _Stopwatch(self.clock), LoopUsage()
        turns: list[Turn] = [UserText(text=self.redact.mask_secrets(mission.prompt.text))]
        while (limit := limit_reached(self.limits, spent)) is None:
            if (turns_now := await self._steered(toolbox, turns, spent)) is None:
                return ports.Talked(text=_last_text(turns), spent=spent)
            turns = turns_now
            answer, allowed = await self._ask(toolbox, turns, spent, watch), self._next_limits(spent)
            if answer.reply is None:
                return _without_reply(answer, spent.at(answer.seconds))
            reply, spent = answer.reply, self._count_reply(spent, answer.reply).at(answer.seconds)
            if (ended := self._end_of(toolbox, reply, turns, allowed, spent)) is not None:
                return ended
            try:
                result, shown = await self._carry_out_calls(toolbox, reply, watch, spent.iterations)
            except _TimeUp:
                return ports.LimitReached(limit=Limit.TIME, spent=spent.at(watch.seconds()))
            spent = spent.at(watch.seconds())
            if result is not None:
                return ports.Finished(value=result, spent=spent)
            turns += shown
        return ports.LimitReached(limit=limit, spent=spent)

    async def _steered(self, toolbox: _Toolbox[T], turns: list[Turn], spent: LoopUsage) -> list[Turn] | None:
        """Return the conversation with the news from outside; None if they end the loop."""
        steering = toolbox.mission.steering
        if steering is None:
            return turns

        async def look() -> Json:
            stored: Json = msgspec.to_builtins(await steering(tuple(turns), spent))
            return stored

        news = msgspec.convert(await self.once(f"news_{spent.iterations + 1}", look), type=ports.News)
        if news.ended:
            return None
        kept = turns if news.conversation is None else list(news.conversation)
        kept += [UserText(text=self.redact.mask_secrets(text)) for text in news.messages]
        return [*kept, toolbox.nudge] if isinstance(kept[-1], Reply) else kept

    def _end_of(
        self, toolbox: _Toolbox[T], reply: Reply, turns: Sequence[Turn], allowed: CallLimits, spent: LoopUsage
    ) -> ports.Outcome[T] | None:
        """Return the outcome if the loop ends with a reply before its calls are carried out."""
        if reply.cut_off:
            return None if toolbox.steered else self._end_of_cut_reply(reply, allowed, spent)
        if (told := toolbox.result_of(reply)) is not None:
            return ports.Finished(value=told, spent=spent)
        return ports.Talked(text=reply.text, spent=spent) if toolbox.ends_by_talking(reply, turns) else None

    async def _ask(
        self, toolbox: _Toolbox[T], turns: Sequence[Turn], spent: LoopUsage, watch: _Stopwatch
    ) -> _ModelAnswer:
        request = self._request(toolbox, turns, spent)
        if toolbox.mission.watch is not None:
            toolbox.mission.watch(request)

        async def ask() -> Json:
            reply, error = None, None
            try:
                reply = await self._within_time(self.model.reply(request), watch)
            except Refusal as refusal:
                error = refusal.as_error()
            except _TimeUp:
                pass
            stored: Json = msgspec.to_builtins(_ModelAnswer(seconds=watch.seconds(), reply=reply, error=error))
            return stored

        answer = msgspec.convert(await self.once(f"reply_{spent.iterations + 1}", ask), type=_ModelAnswer)
        watch.resume_at(answer.seconds)
        return answer

    def _end_of_cut_reply(
        self, reply: Reply, allowed: CallLimits, spent: LoopUsage
    ) -> ports.LimitReached | ports.ModelFailed:
        """Return the outcome of a reply that was cut off: the loop's tokens ran out, or the reply was too long."""
        if allowed.max_output_tokens < self.call_limits.max_output_tokens:
            return ports.LimitReached(limit=Limit.TOKENS, spent=spent)
        return ports.ModelFailed(error=cut_off_refusal(reply.model, allowed.max_output_tokens).as_error(), spent=spent)

    async def _carry_out_calls(
        self, toolbox: _Toolbox[T], reply: Reply, watch: _Stopwatch, turn: int
    ) -> tuple[T | None, Sequence[Turn]]:
        """Execute the calls of a reply in order; return the first valid result, or what the model is shown."""
        if reply.cut_off:
            return None, [UserText(text=CUT_OFF)]
        shown: list[Turn] = []
        for at, call in enumerate(reply.calls):
            self.journal(ports.Called(tool=toolbox.name_of(call), arguments=self.redact(call.arguments)))
            is_result = toolbox.finish is not None and call.name == toolbox.finish.name
            if not is_result or at >= self.limits.max_calls_in_reply:
                answer = await self._carry_out(toolbox, call, watch, (turn, at))
            else:
                try:
                    return toolbox.accept(call.arguments), ()
                except Refusal as refusal:
                    answer = _refused_call(toolbox.name_of(call), call, refusal, watch)
            shown.append(self._observation(toolbox, call, answer))
        if toolbox.steered and not shown:
            # Providers reject an empty reply in the history; the steering says what comes after talk.
            return None, [reply] if reply.text else [toolbox.nudge]
        return None, [reply, *(shown or [toolbox.nudge])]

    async def _carry_out(
        self, toolbox: _Toolbox[T], call: ToolCall, watch: _Stopwatch, at: tuple[int, int]
    ) -> _CallResult:
        name = toolbox.name_of(call)

        async def execute() -> Json:
            try:
                text = await self._execute(toolbox, call, watch, at[1])
                done = _CallResult(tool=name, arguments=call.arguments, ok=True, text=text, seconds=watch.seconds())
            except Refusal as refusal:
                done = _refused_call(name, call, refusal, watch)
            except _TimeUp:
                done = _CallResult(tool=name, arguments=call.arguments, seconds=watch.seconds())
            stored: Json = msgspec.to_builtins(done)
            return stored

        done = msgspec.convert(await self.once(f"call_{at[0]}_{at[1] + 1}", execute), type=_CallResult)
        watch.resume_at(done.seconds)
        if done.ok is None:
            raise _TimeUp
        return done

    async def _execute(self, toolbox: _Toolbox[T], call: ToolCall, watch: _Stopwatch, before: int) -> str:
        """Call a tool; the model is shown a refusal."""
        if before >= (most := self.limits.max_calls_in_reply):
            raise Refusal(f"Only {most} calls of one reply are executed.", hint="Call fewer tools in one reply.")
        name = toolbox.real_names.get(call.name)
        if name is None:
            known = ", ".join(sorted(filter(None, [*toolbox.real_names, toolbox.mission.finish])))
            raise errors.UnknownTool(f"There is no tool `{call.name[:80]}`.", hint=f"Call one of: {known}.")
        return await self._within_time(toolbox.tools.execute(name, _arguments(call)), watch)

    async def _within_time(self, doing: Awaitable[R], watch: _Stopwatch) -> R:
        """Wait for a model or a tool, within the time of the loop."""
        deadline = asyncio.timeout(max(self._seconds_left(watch), SHORTEST_WAIT_SECONDS))
        try:
            async with deadline:
                return await doing
        except TimeoutError as error:
            if deadline.expired():
                raise _TimeUp from error
            raise
        except errors.ModelTimeout as error:
            # The model's timeout is at most the loop's, so it may expire first.
            if self._seconds_left(watch) <= 0:
                raise _TimeUp from error
            raise

    def _seconds_left(self, watch: _Stopwatch) -> float:
        return self.limits.max_seconds - watch.seconds()

    def _observation(self, toolbox: _Toolbox[T], call: ToolCall, answer: _CallResult) -> Observation:
        """Note a call's result in the journal, and return it as fenced data for the model."""
        self.journal(ports.Observed(tool=answer.tool, ok=bool(answer.ok), text=self.redact(answer.text)))
        text, most = self.redact.mask_secrets(answer.text), self.limits.max_observation_chars
        data = Data(source=f"tool {answer.tool}", text=text, max_chars=most)
        block = data_block(data, toolbox.mission.prompt.fence)
        return Observation(call_id=call.call_id, name=call.name, text=block, ok=bool(answer.ok))

    def _request(self, toolbox: _Toolbox[T], turns: Sequence[Turn], spent: LoopUsage) -> Request:
        allowed = self._next_limits(spent)
        return Request(
            instructions=toolbox.mission.prompt.instructions,
            turns=tuple(turns),
            tools=toolbox.offers,
            answer=toolbox.finish,
            text_allowed=toolbox.mission.text_allowed or toolbox.steered,
            max_output_tokens=allowed.max_output_tokens,
            timeout_seconds=allowed.timeout_seconds,
            thinking=allowed.thinking,
            fence=toolbox.mission.prompt.fence,
        )

    def _next_limits(self, spent: LoopUsage) -> CallLimits:
        return next_call_limits(self.limits, spent, self.call_limits)

    def _count_reply(self, spent: LoopUsage, reply: Reply) -> LoopUsage:
        cost = self.prices.cost(reply.model, reply.usage)
        self.journal(
            ports.Replied(
                model=reply.model,
                text=self.redact(reply.text),
                usage=reply.usage,
                cost_usd=cost,
                passed_over=reply.passed_over,
            )
        )
        return spent.with_reply(reply.usage, cost)

    def _refuse_unknown_prices(self) -> None:
        names = [name for name in self.model.names if name not in self.limits.uncapped]
        unknown = [name for name in names if self.prices.of(name) is None]
        if self.limits.max_cost_usd is not None and unknown:
            raise errors.ModelPriceUnknown(
                f"The price of `{unknown[0]}` is unknown, so a cost limit cannot be enforced.", models=unknown
            )


def _finish_of(mission: Mission[T]) -> Offer:
    description = "Hand in the result; this ends the work."
    return Offer(name=mission.finish, description=description, schema=schema_of(mission.result))


def _last_text(turns: Sequence[Turn]) -> str:
    """Return the text of the last reply."""
    return next((turn.text for turn in reversed(turns) if isinstance(turn, Reply)), "")


def cut_off_refusal(model: str, max_output_tokens: int) -> errors.ModelReplyCutOff:
    """Return the refusal of a reply that reached its token limit."""
    return errors.ModelReplyCutOff(f"The reply of `{model}` was cut off at {max_output_tokens} tokens.", model=model)


def _without_reply(answer: _ModelAnswer, spent: LoopUsage) -> ports.ModelFailed | ports.LimitReached:
    if answer.error is None:
        return ports.LimitReached(limit=Limit.TIME, spent=spent)
    return ports.ModelFailed(error=answer.error, spent=spent)


def _refused_call(name: str, call: ToolCall, refusal: Refusal, watch: _Stopwatch) -> _CallResult:
    text = f"[{refusal.code}] {refusal.message} {refusal.next_action}"
    return _CallResult(tool=name, arguments=call.arguments, ok=False, text=text, seconds=watch.seconds())


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    hint = "Call the tool again with arguments that match its schema."
    try:
        value = parse_json(call.arguments or "{}")
    except MalformedText as problem:
        raise errors.InvalidArguments(f"The arguments are not valid JSON: {problem.reason}.", hint=hint) from problem
    if not isinstance(value, Mapping):
        raise errors.InvalidArguments("The arguments are not a JSON object.", hint=hint)
    return value
