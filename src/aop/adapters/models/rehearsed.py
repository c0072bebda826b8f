"""Rehearsed models: fixed answers and scripts, for demos without a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits
from aop.brains.conversation import Reply, Request, TokenCounts, ToolCall, UserText
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


Calls: TypeAlias = Sequence[tuple[str, Mapping[str, Json]]]


class RehearsedReply(Struct, frozen=True):
    """One reply of a script."""

    calls: Calls = ()
    text: str = ""


class Script(Struct, frozen=True, kw_only=True):
    """The replies of one loop."""

    cue: str
    """A text in the first message of the loop."""
    replies: tuple[RehearsedReply, ...]
    """A reply with a tool that is not offered is left out."""


class RehearsedModel:
    """Implements `aop.brains.conversation.Model`. It remembers nothing: each reply follows from its request."""

    names: tuple[str, ...] = (NAME,)

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = tuple(scripts)

    async def reply(self, request: Request) -> Reply:
        opening = next((turn.text for turn in request.turns if isinstance(turn, UserText)), "")
        script = next((each for each in self._scripts if each.cue in opening), None)
        if script is None:
            raise Fault("The rehearsed model has no script for this loop.")
        offered = {offer.name for offer in (*request.tools, *((request.answer,) if request.answer else ()))}
        playable = [reply for reply in script.replies if all(name in offered for name, _ in reply.calls)]
        at = sum(isinstance(turn, Reply) for turn in request.turns)
        if at >= len(playable):
            raise Fault(f"The script for `{script.cue}` ends before reply {at + 1}.")
        return Reply(
            model=NAME,
            text=playable[at].text,
            calls=tuple(
                ToolCall(call_id=f"call-{at + 1}-{number}", name=name, arguments=msgspec.json.encode(given).decode())
                for number, (name, given) in enumerate(playable[at].calls, start=1)
            ),
        )
