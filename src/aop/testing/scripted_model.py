"""Scripted model: gives its replies in order, and records its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from aop.brains.conversation import Reply, Request, TokenCounts, ToolCall
from aop.core.errors import Fault, Refusal

Step: TypeAlias = Callable[[Request], Reply] | Refusal
NAME = "scripted:model"
USAGE = TokenCounts(input_tokens=100, output_tokens=20)


class ScriptedModel:
    """Implements `aop.brains.conversation.Model`."""

    def __init__(self, steps: Iterable[Step], *, name: str = NAME) -> None:
        self._steps = iter(steps)
        self._name = name
        self.asked: list[Request] = []

    @property
    def names(self) -> tuple[str, ...]:
        return (self._name,)

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        step = next(self._steps, None)
        if step is None:
            raise Fault(f"The script ends before request {len(self.asked)}.")
        if isinstance(step, Refusal):
            raise step
        return msgspec.structs.replace(step(request), model=self._name)


def answers(value: Any, *, usage: TokenCounts = USAGE) -> Step:
    """Return the step that gives the answer that was asked for."""

    def step(request: Request) -> Reply:
        if request.answer is None:
            raise Fault("No answer was asked for.")
        return calls((request.answer.name, msgspec.to_builtins(value)), usage=usage)(request)

    return step


def calls(
    *wanted: tuple[str, Mapping[str, Any]], text: str = "", usage: TokenCounts = USAGE
) -> Callable[[Request], Reply]:
    """Return the step that calls tools."""

    def step(request: Request) -> Reply:
        made = tuple(
            ToolCall(
                call_id=f"call-{len(request.turns)}-{at}", name=name, arguments=msgspec.json.encode(given).decode()
            )
            for at, (name, given) in enumerate(wanted)
        )
        return Reply(model=NAME, text=text, calls=made, usage=usage)

    return step


def breaks_off(text: str, *, usage: TokenCounts = USAGE) -> Step:
    """Return the step that reaches its token limit."""
    return lambda _: Reply(model=NAME, text=text, cut_off=True, usage=usage)


def says(text: str, *, usage: TokenCounts = USAGE) -> Step:
    """Return the step that only talks."""
    return calls(text=text, usage=usage)
