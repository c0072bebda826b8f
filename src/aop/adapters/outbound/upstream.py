"""An MCP server of somebody else's, as a child process: one task owns its client, and starts it anew when it died.

What a server answers is a stranger's text: read as JSON where it is JSON, cut short and without secrets in errors. Its
child gets only the environment that is named for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, TextContent, Tool
from msgspec import Struct

from aop.adapters.outbound.failures import refusal
from aop.brains.conversation import Offer
from aop.core.errors import Json, Refusal, RemoteToolsMissing, RemoteUnavailable
from aop.core.jsontext import MalformedText, parse_json

CALL_SECONDS = 60.0


class Operation(Struct, frozen=True):
    """What the server calls an operation of ours, and what it calls each argument of it."""

    tool: str
    arguments: Mapping[str, str]


class ServerCommand(Struct, frozen=True, kw_only=True):
    """How a server is started."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    folder: str | None = None
    """Where it works: some read an `.env` from there."""
    token: str = ""
    """The variable that holds its token, for whoever must set it anew."""
    call_seconds: float = CALL_SECONDS


class _Asked(Struct, frozen=True):
    tool: str
    """Empty: what tools are there."""
    arguments: Mapping[str, Any]
    answer: Future[Any]


class Upstream:
    """One server. Its calls go one after the other; any event loop may await them."""

    def __init__(
        self, command: ServerCommand, needed: Sequence[Operation], portal: BlockingPortal, redact: Callable[[str], str]
    ) -> None:
        self._command = command
        self._needed = tuple(needed)
        self._portal = portal
        self._redact = redact
        self._asked: asyncio.Queue[_Asked | None] = asyncio.Queue()
        self._ended = portal.start_task_soon(self._serve)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool, and return the JSON that it answers, or its text.

        Raises: RemoteNotFound, RemoteRejected, RemoteUnavailable, RemoteToolsMissing.
        """
        answer: Json = await self._put(tool, arguments)
        return answer

    async def tools(self) -> Sequence[Offer]:
        """Return what the server can do."""
        listed: list[Tool] = await self._put("", {})
        return [Offer(name=tool.name, description=tool.description or "", schema=tool.input_schema) for tool in listed]

    def close(self) -> None:
        """Let the child end; calls that wait come first."""
        self._portal.call(self._asked.put_nowait, None)
        self._ended.result()

    async def _put(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        asked = _Asked(tool, arguments, Future())
        self._portal.start_task_soon(self._asked.put, asked)
        return await asyncio.wrap_future(asked.answer)

    async def _serve(self) -> None:
        while (asked := await self._asked.get()) is not None:
            waiting: list[_Asked] = [asked]
            try:
                if await self._connected(waiting):
                    return
            except (MCPError, OSError, TimeoutError, BaseExceptionGroup) as error:
                _fail(waiting, self._lost(waiting, error))
            except RemoteToolsMissing as missing:
                _fail(waiting, missing)

    async def _connected(self, waiting: list[_Asked]) -> bool:
        """Answer calls until the child is gone; tell whether there will be no more of them.

        The call that is being answered stands in `waiting`, for whoever must say that it failed.
        """
        parameters = StdioServerParameters(
            command=self._command.command,
            args=list(self._command.args),
            env=dict(self._command.env),
            cwd=self._command.folder,
        )
        with _nowhere() as nowhere:
            transport = stdio_client(parameters, errlog=nowhere)
            async with Client(transport, mode="legacy", read_timeout_seconds=self._command.call_seconds) as client:
                tools = (await client.list_tools()).tools
                self._checked(tools)
                while waiting:
                    await self._answer(client, tools, waiting[0])
                    waiting.clear()
                    more = await self._asked.get()
                    if more is None:
                        return True
                    waiting.append(more)
        return False

    async def _answer(self, client: Client, tools: list[Tool], asked: _Asked) -> None:
        if not asked.tool:
            _settle(asked, tools)
            return
        if asked.tool not in {tool.name for tool in tools}:
            _settle(asked, RemoteToolsMissing(f"`{self._command.name}` has no tool `{asked.tool}`.", tool=asked.tool))
            return
        try:
            result = await client.call_tool(asked.tool, dict(asked.arguments))
        except MCPError as error:
            if _is_lost(error):
                raise
            _settle(asked, self._refusal(asked.tool, str(error)))
            return
        value = _text(result) if result.is_error else _value(result)
        if isinstance(value, dict) and set(value) == {"error"}:
            # Some servers answer an error as if it were a result.
            _settle(asked, self._refusal(asked.tool, str(value["error"])))
        else:
            _settle(asked, self._refusal(asked.tool, str(value)) if result.is_error else value)

    def _checked(self, tools: Sequence[Tool]) -> None:
        """Hold our table against what the server says it takes.

        Raises: RemoteToolsMissing.
        """
        taken = {tool.name: set(tool.input_schema.get("properties", {})) for tool in tools}
        missing: list[Json] = []
        for need in self._needed:
            if need.tool not in taken:
                missing.append(need.tool)
            else:
                missing += [f"{need.tool}({name})" for name in need.arguments.values() if name not in taken[need.tool]]
        if missing:
            raise RemoteToolsMissing(
                f"The MCP server `{self._command.name}` lacks what AOP needs: {', '.join(map(str, missing))}.",
                server=self._command.name,
                missing=missing,
            )

    def _refusal(self, tool: str, text: str) -> Refusal:
        return refusal(self._command.name, tool, text, token=self._command.token, redact=self._redact)

    def _lost(self, waiting: Sequence[_Asked], error: BaseException) -> Refusal:
        tool = waiting[0].tool if waiting else ""
        return RemoteUnavailable(
            f"The MCP server `{self._command.name}` was lost at `{tool}`: {type(error).__name__}.",
            server=self._command.name,
            tool=tool,
        )


@contextmanager
def outbound_portal() -> Iterator[BlockingPortal]:
    """Have a thread with an event loop in which servers are spoken to, whichever loop asks."""
    with start_blocking_portal() as portal:
        yield portal


def _nowhere() -> TextIO:
    """Return where the child's own log goes: it may hold what others must not see."""
    return open(os.devnull, "w", encoding="utf-8")


def _is_lost(error: MCPError) -> bool:
    """Tell whether the child is gone or silent, so that nobody knows what it did."""
    return error.error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT)


def _fail(waiting: Sequence[_Asked], refusal: Refusal) -> None:
    for asked in waiting:
        _settle(asked, refusal)


def _settle(asked: _Asked, answer: Any) -> None:
    """Answer a call, unless nobody waits for it any more."""
    with suppress(asyncio.InvalidStateError):
        if asked.answer.cancelled():
            return
        if isinstance(answer, Refusal):
            asked.answer.set_exception(answer)
        else:
            asked.answer.set_result(answer)


def _text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def _value(result: CallToolResult) -> Json:
    """Return what a tool answered: some wrap it as `result`, some write JSON as text."""
    value: Any = result.structured_content
    if isinstance(value, dict) and set(value) == {"result"}:
        value = value["result"]
    if value is None:
        value = _text(result)
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]
    try:
        return parse_json(value)
    except MalformedText:
        return value
