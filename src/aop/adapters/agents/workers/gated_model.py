"""Gated model: a plain model that makes one attempt at a step in each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.agents.turn_logs import fresh_log
from aop.adapters.agents.workers.model import (
    CONTEXT_CHARS,
    ModelContext,
    Transcript,
    call_tool,
    limits_of,
    offer_of,
    refusal_of,
    usage_of,
)
from aop.brains.conversation import Offer
from aop.brains.ports import Brain, Finished, Mission, Outcome
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.core.errors import OutOfStep
from aop.core.roles import Role
from aop.gated.driver import ENDS_A_TURN, TurnInput, TurnOutput
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal

_RULE = (
    "The current answer of `get_task` is below; you need not call it. After one submission your turn is over: hand in"
    " your result then, and say in one sentence what you did. The next turn starts without memory of this one."
)
_OVER = "Your turn is over: each turn has one attempt."


class StepResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a turn."""

    summary: str


class SteppingModel:
    """Implements `aop.gated.driver.Agent`."""

    provider = "model"

    def __init__(self, brain: Brain, model: str | None, context: ModelContext, instructions: str) -> None:
        self._brain = brain
        self.model = model
        self._context = context
        self._instructions = instructions

    def turn(self, given: TurnInput) -> TurnOutput:
        tools = StepTools(self._context.gateway, given)
        outcome = asyncio.run(self._work(given, tools))
        if isinstance(outcome, Finished):
            return TurnOutput(usage=usage_of(outcome.spent), note=outcome.value.summary)
        if not tools.is_over:
            raise refusal_of(outcome)
        return TurnOutput(usage=usage_of(outcome.spent))

    async def _work(self, given: TurnInput, tools: StepTools) -> Outcome[StepResult]:
        seconds = max(1.0, min(self._context.seconds, given.seconds))
        limits = limits_of(self._context.gateway.kernel, given.feature_id, seconds)
        mission = Mission(prompt=self._prompt(given), result=StepResult)
        with Transcript(fresh_log(self._context.logs, given.feature_id, Role.SWE)) as transcript:
            return await self._brain.run_agentic_loop(mission, tools, limits, transcript.note)

    def _prompt(self, given: TurnInput) -> Prompt:
        material = {"task": given.task, "last_tool_results": given.last_tool_results}
        text = msgspec.json.format(msgspec.json.encode(material), indent=1).decode()
        return build_prompt(
            f"{self._instructions}\n\n{_RULE}",
            f"You work on `{given.feature_id}`. Do what the task says.",
            [Data(source="get_task", text=text, max_chars=CONTEXT_CHARS)],
            self._context.gateway.kernel.new_id("fence"),
        )


class StepTools:
    """Implements `aop.brains.ports.Tools`: the tools of `swe`, up to the first submission (GATED-03)."""

    def __init__(self, gateway: Gateway, given: TurnInput) -> None:
        self._gateway = gateway
        name = given.feature_id
        self._who = Principal(role=Role.SWE, actor=f"{Role.SWE}:{name}", features=frozenset({name}))
        self.is_over = False

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that the model is shown."""
        return tuple(offer_of(tool) for tool in self._gateway.tools.values() if Role.SWE in tool.roles)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool through the gateway."""
        if self.is_over:
            raise OutOfStep(_OVER, hint="Hand in your result.")
        answer = await call_tool(self._gateway, self._who, name, arguments)
        self.is_over = name in ENDS_A_TURN
        return answer
