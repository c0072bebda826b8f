"""Tool calls of a model: done by Python, within the mission, each write once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from aop.brains.conversation import Offer
from aop.core.errors import InvalidArguments, Json, ToolCallDenied
from aop.tickets.loop.tool_policy import AllowedTool, ServerTool, allowed_tools, free_arguments, offer_of, server_tools
from aop.tickets.ports import McpPort
from aop.tickets.steps import Desk, TicketSteps

FixedArguments = Mapping[str, str]
"""Arguments that a mission fixes: `key`, `project`, `branch`, `base`, `number`, `transition`, `state`, `whose`."""

LIST_EVERYTHING: FixedArguments = {"state": "all", "whose": "all"}
"""Lists have all states and all authors."""

Write: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Carries out one write of a mission, and returns the answer for the model."""


class MissionTools:
    """Implements `aop.brains.ports.Tools` for one mission, and keeps the answers of its calls."""

    def __init__(
        self,
        desk: Desk,
        steps: TicketSteps,
        tools: Sequence[AllowedTool],
        held: FixedArguments,
        writes: Mapping[str, Write],
    ) -> None:
        self._ports = ports_of(desk)
        self._steps = steps
        self._tools = {tool.name: tool for tool in tools}
        self._held = held
        self._writes = writes
        self.done: dict[str, list[Json]] = {}
        """The answers of each operation, in the order of the calls."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that passed the policy."""
        return [offer_of(tool, self._held) for tool in self._tools.values()]

    async def do_once(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a part of the loop as a step; keep its answer, also one of an earlier process. Raises: StepFailed."""
        value = await self._steps.do_within(name, do)
        tool = self._tools.get(value.get("tool", ""))
        if tool is not None and value["ok"]:
            self.done.setdefault(tool.operation, []).append(value["text"])
        kept: Json = value
        return kept

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Carry out one call. Raises: ToolCallDenied, InvalidArguments, and what the port refuses."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolCallDenied(f"`{name[:80]}` is not a tool of this mission.", tool=name[:80])
        meaning = tool.meaning
        for argument in meaning.held:
            given = arguments.get(argument)
            if given is not None and str(given) != self._held.get(argument):
                raise ToolCallDenied(f"`{argument}` is fixed by the mission.", tool=name, argument=argument)
        try:
            free = free_arguments(meaning, arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"The arguments are invalid: {str(error)[:300]}.") from error
        if meaning.writes:
            return msgspec.json.encode(await self._writes[meaning.operation](free)).decode()
        held = {argument: self._held[argument] for argument in meaning.held if argument in self._held}
        wanted = {**held, **msgspec.to_builtins(free)}
        return await self._ports[tool.side].execute_tool(tool.tool, _server_arguments(tool, wanted))


def ports_of(desk: Desk) -> Mapping[str, McpPort]:
    """Return the ports by side."""
    return {"tracker": desk.tracker, "vcs": desk.vcs, "docs": desk.docs}


async def mission_tools(desk: Desk, steps: TicketSteps, may: frozenset[str]) -> tuple[AllowedTool, ...]:
    """List the tools of all ports, and return those that the policy allows. Raises: StepFailed."""

    async def gather() -> list[ServerTool]:
        return [
            tool for side, port in ports_of(desk).items() for tool in server_tools(side, await port.get_mcp_tools())
        ]

    def keep() -> dict[str, Json]:
        known = {side: port.known_tools for side, port in ports_of(desk).items()}
        kept = allowed_tools(there, known, may)
        names = {tool.name for tool in kept}
        denied: list[Json] = [name for tool in there if (name := f"{tool.side}.{tool.tool}") not in names]
        return {"allowed": msgspec.to_builtins(kept), "denied": denied}

    there = msgspec.convert(await steps.do("gather_tools", gather), type=list[ServerTool])
    return msgspec.convert((await steps.compute("filter_tools", keep))["allowed"], type=tuple[AllowedTool, ...])


def _server_arguments(tool: AllowedTool, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the server's names, with numbers as numbers."""
    named = {tool.arguments[name]: value for name, value in wanted.items() if name in tool.arguments}
    return {
        name: int(value) if name in tool.numbers and str(value).isdecimal() else value for name, value in named.items()
    }
