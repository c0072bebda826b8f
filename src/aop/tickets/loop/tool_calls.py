"""Where the calls of a model in a loop are carried out: by Python, within the mission, each write once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from aop.brains.conversation import Offer
from aop.core.errors import InvalidArguments, Json, ToolCallDenied
from aop.tickets.loop.tool_policy import Allowed, Gathered, allowed, free_arguments, gathered, offer_of
from aop.tickets.ports import McpPort
from aop.tickets.steps import Desk, TicketSteps

Held = Mapping[str, str]
"""What a mission fixes: `key`, `project`, `branch`, `base`, `number`, `transition`, `state`, `whose`."""

EVERYTHING: Held = {"state": "all", "whose": "all"}
"""Lists are whole: of all states, whoever made what is on them."""


Write: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Carries out one write of a mission through the port that does it once, and returns what the model is told."""


class MissionTools:
    """Implements `aop.brains.ports.Tools` for one mission, and keeps what was carried out."""

    def __init__(
        self, desk: Desk, steps: TicketSteps, tools: Sequence[Allowed], held: Held, writes: Mapping[str, Write]
    ) -> None:
        self._ports = ports_of(desk)
        self._steps = steps
        self._tools = {tool.name: tool for tool in tools}
        self._held = held
        self._writes = writes
        self.done: dict[str, list[Json]] = {}
        """What each operation answered, in the order of the calls that were carried out."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that passed the policy."""
        return [offer_of(tool, self._held) for tool in self._tools.values()]

    async def once(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a part of a loop as a step of the run, and remember what calls came to: also those of an earlier process.

        Raises: StepFailed.
        """
        value = await self._steps.do_within(name, do)
        tool = self._tools.get(value.get("tool", ""))
        if tool is not None and value["ok"]:
            self.done.setdefault(tool.operation, []).append(value["text"])
        kept: Json = value
        return kept

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Carry out one call.

        Raises: ToolCallDenied, InvalidArguments, and what the port refuses.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolCallDenied(f"`{name[:80]}` is no tool of this mission.", tool=name[:80])
        meaning = tool.meaning
        for argument in meaning.held:
            given = arguments.get(argument)
            if given is not None and str(given) != self._held.get(argument):
                raise ToolCallDenied(f"`{argument}` is not for you to choose.", tool=name, argument=argument)
        try:
            free = free_arguments(meaning, arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"The arguments do not fit: {str(error)[:300]}.") from error
        if meaning.writes:
            told = await self._writes[meaning.operation](free)
            return msgspec.json.encode(told).decode()
        held = {argument: self._held[argument] for argument in meaning.held if argument in self._held}
        wanted = {**held, **msgspec.to_builtins(free)}
        return await self._ports[tool.side].execute_tool(tool.tool, _in_their_words(tool, wanted))


def ports_of(desk: Desk) -> Mapping[str, McpPort]:
    """Return the ports by the side that they stand for."""
    return {"tracker": desk.tracker, "vcs": desk.vcs, "docs": desk.docs}


async def mission_tools(desk: Desk, steps: TicketSteps, may: frozenset[str]) -> tuple[Allowed, ...]:
    """Gather the tools of all ports, and keep those that the policy lets through.

    Raises: StepFailed.
    """

    async def gather() -> list[Gathered]:
        return [tool for side, port in ports_of(desk).items() for tool in gathered(side, await port.get_mcp_tools())]

    async def keep() -> dict[str, Json]:
        known = {side: port.known_tools for side, port in ports_of(desk).items()}
        kept = allowed(there, known, may)
        names = {tool.name for tool in kept}
        denied: list[Json] = [name for tool in there if (name := f"{tool.side}.{tool.tool}") not in names]
        return {"allowed": msgspec.to_builtins(kept), "denied": denied}

    there = msgspec.convert(await steps.do("gather_tools", gather), type=list[Gathered])
    return msgspec.convert((await steps.do("filter_tools", keep))["allowed"], type=tuple[Allowed, ...])


def _in_their_words(tool: Allowed, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the server's names, and numbers as numbers."""
    named = {tool.arguments[name]: value for name, value in wanted.items() if name in tool.arguments}
    return {
        name: int(value) if name in tool.numbers and str(value).isdecimal() else value for name, value in named.items()
    }
