"""Mission run: one mission of a model with tools, as steps of a run."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits, LoopUsage
from aop.brains.ports import Finished, LimitReached, Mission, ModelFailed, Outcome, Talked
from aop.core.errors import AgentStopped, Json, Refusal
from aop.tickets.loop.tool_calls import MissionTools
from aop.tickets.steps import Desk, TicketSteps

T = TypeVar("T", bound=Struct)


async def run_mission(
    desk: Desk, steps: TicketSteps, tools: MissionTools, mission: Mission[T], limits: LoopLimits
) -> tuple[T, LoopUsage]:
    """Let a model work; return its result and usage. Raises: StepFailed, also if the model ended without a result."""
    # A continued run keeps the limits that it began with.
    kept = msgspec.convert(await steps.compute("set_limits", lambda: limits), type=LoopLimits)
    try:
        outcome: Outcome[T] = await desk.brain.run_agentic_loop(mission, tools, kept, _ignore_event, once=tools.do_once)
    except Refusal as refusal:
        outcome = ModelFailed(error=refusal.as_error(), spent=LoopUsage())

    def end() -> dict[str, Json]:
        if isinstance(outcome, Finished):
            return {"value": msgspec.to_builtins(outcome.value), "spent": msgspec.to_builtins(outcome.spent)}
        raise _stop_refusal(outcome, sorted(tools.done))

    ended = await steps.compute("end_loop", end)
    return msgspec.convert(ended["value"], type=mission.result), msgspec.convert(ended["spent"], type=LoopUsage)


def remaining_limits(limits: LoopLimits, spent: LoopUsage) -> LoopLimits:
    """Return the limits that remain for the next mission of the same run."""
    tokens, cost = limits.max_tokens, limits.max_cost_usd
    return msgspec.structs.replace(
        limits,
        max_seconds=max(limits.max_seconds - spent.seconds, 0.0),
        max_tokens=None if tokens is None else max(tokens - (spent.usage.total_tokens or 0), 0),
        max_cost_usd=None if cost is None else max(cost - (spent.cost_usd or 0.0), 0.0),
    )


def limits_in_words(limits: LoopLimits) -> dict[str, str | int]:
    """Return the limits as words for a prompt."""
    return {
        "iterations": limits.max_iterations,
        "seconds": int(limits.max_seconds),
        "tokens": "" if limits.max_tokens is None else f", {limits.max_tokens} tokens",
        "cost": "" if limits.max_cost_usd is None else f" or {limits.max_cost_usd:.2f} US dollars",
    }


def _stop_refusal(outcome: Talked | LimitReached | ModelFailed, done: list[str]) -> AgentStopped:
    why, cause = "it called no tool", "talked"
    if isinstance(outcome, LimitReached):
        why, cause = f"it reached its limit of {outcome.limit}", str(outcome.limit)
    elif isinstance(outcome, ModelFailed):
        why, cause = f"it was refused: {outcome.error['message']}", str(outcome.error["code"])
    return AgentStopped(
        f"The model stopped before it was done: {why}, after {outcome.spent.iterations} replies.",
        cause=cause,
        operations_done=[*done],
        spent=msgspec.to_builtins(outcome.spent),
    )


def _ignore_event(_event: object) -> None:
    """Do nothing: the steps of the run record each reply and call."""
