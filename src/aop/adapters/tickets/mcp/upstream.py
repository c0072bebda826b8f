"""Upstream: a third-party MCP server as a child process, restarted after it died.

Its answers are untrusted: parsed as JSON where possible, shortened and without secrets in errors. The child gets only
the environment that is listed for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.tickets.mcp import stdio_client
from aop.adapters.tickets.mcp.failures import refusal
from aop.adapters.tickets.mcp.stdio_client import ListedTool, ServerCommand, ServerError, ServerGone
from aop.brains.conversation import Offer
from aop.core.errors import Json, Refusal, RemoteToolsMissing, RemoteUnavailable
from aop.core.text.json import MalformedText, parse_json
from aop.tickets.ports import KnownTool

_WORD = re.compile(r"\w+")
_WATCH_SECONDS = 0.1
_CUT_OFF = "this machine is cut off"


class _Request(Struct, frozen=True):
    tool: str
    """Empty: list the tools."""
    arguments: Mapping[str, Any]
    answer: Future[Any]


class Upstream:
    """One server, with one call at a time, from any event loop."""

    def __init__(
        self,
        command: ServerCommand,
        needed: Sequence[KnownTool],
        portal: asyncio.AbstractEventLoop,
        redact: Callable[[str], str],
        is_cut_off: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take what tells that no call may be made: one that is under way then is broken off with its child."""
        self._command = command
        self._is_cut_off = is_cut_off
        self._needed = tuple(needed)
        self._portal = portal
        self._redact = redact
        self._pinned = ""
        self._requests: asyncio.Queue[_Request | None] = asyncio.Queue()
        self._ended = asyncio.run_coroutine_threadsafe(self._serve(), portal)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool. Raises: RemoteNotFound, RemoteRejected, RemoteUnavailable, RemoteToolsMissing."""
        answer: Json = await self._send_request(tool, arguments)
        return answer

    async def tools(self) -> Sequence[Offer]:
        """Return the tools of the server."""
        listed: Sequence[ListedTool] = await self._send_request("", {})
        return [Offer(name=tool.name, description=tool.description or "", schema=tool.input_schema) for tool in listed]

    def close(self) -> None:
        """End the child, after the waiting calls."""
        self._portal.call_soon_threadsafe(self._requests.put_nowait, None)
        self._ended.result()

    async def _send_request(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        request = _Request(tool, arguments, Future())
        self._portal.call_soon_threadsafe(self._requests.put_nowait, request)
        return await asyncio.wrap_future(request.answer)

    async def _serve(self) -> None:
        while (request := await self._requests.get()) is not None:
            waiting: list[_Request] = [request]
            try:
                if await self._answer_calls(waiting):
                    return
            except (ServerGone, ServerError, OSError) as error:
                _fail(waiting, self._unavailable(waiting, error))
            except RemoteToolsMissing as missing:
                _fail(waiting, missing)

    async def _answer_calls(self, waiting: list[_Request]) -> bool:
        """Answer calls until the child is gone; the current one is in `waiting`. Return True after the last call."""
        async with stdio_client.connected(self._command) as client:
            self._check_tools(client.tools)
            while waiting:
                _settle(waiting[0], await self._answer(client, waiting[0]))
                waiting.clear()
                more = await self._requests.get()
                if more is None:
                    return True
                waiting.append(more)
        return False

    async def _answer(self, client: stdio_client.StdioClient, request: _Request) -> Any:
        """Return the answer to a call, or a refusal."""
        if not request.tool:
            return client.tools
        if request.tool not in {tool.name for tool in client.tools}:
            return RemoteToolsMissing(f"`{self._command.name}` has no tool `{request.tool}`.", tool=request.tool)
        try:
            result = await self._called(client, request)
        except ServerError as error:
            return self._refusal(request.tool, str(error))
        value = result.text if result.is_error else _value(result)
        # Some servers answer an error as if it were a result.
        if isinstance(value, dict) and set(value) == {"error"}:
            return self._refusal(request.tool, str(value["error"]))
        return self._refusal(request.tool, str(value)) if result.is_error else value

    async def _called(self, client: stdio_client.StdioClient, request: _Request) -> stdio_client.ToolAnswer:
        """Call a tool. Raises: ServerGone, also if this machine is cut off meanwhile; ServerError."""
        if self._is_cut_off():
            raise ServerGone(_CUT_OFF)
        call = asyncio.ensure_future(client.call(request.tool, request.arguments))
        while not (await asyncio.wait([call], timeout=_WATCH_SECONDS))[0]:
            if self._is_cut_off():
                call.cancel()
                await asyncio.wait([call])
                client.kill()
                raise ServerGone(_CUT_OFF)
        return call.result()

    def _check_tools(self, tools: Sequence[ListedTool]) -> None:
        """Compare our table with the tools of the server. Raises: RemoteToolsMissing."""
        taken = {tool.name: set(tool.input_schema.get("properties", {})) for tool in tools}
        missing: list[Json] = []
        for need in self._needed:
            if need.tool not in taken:
                missing.append(need.tool)
            else:
                missing += [f"{need.tool}({name})" for name in need.arguments.values() if name not in taken[need.tool]]
        if missing:
            raise RemoteToolsMissing(
                f"The MCP server `{self._command.name}` lacks tools or arguments: {', '.join(map(str, missing))}.",
                server=self._command.name,
                missing=missing,
            )
        self._check_unchanged(tools)

    def _check_unchanged(self, tools: Sequence[ListedTool]) -> None:
        """Refuse a restarted server that describes the needed tools differently. Raises: RemoteToolsMissing."""
        needed = {need.tool for need in self._needed}
        shown = [tool for tool in sorted(tools, key=lambda tool: tool.name) if tool.name in needed]
        # By words, since a server may list a set in another order after each start.
        words = sorted(_WORD.findall(msgspec.json.encode(shown).decode()))
        pin = sha256("\0".join(words).encode()).hexdigest()
        if pin != (self._pinned or pin):
            raise RemoteToolsMissing(
                f"The MCP server `{self._command.name}` describes its tools differently after a restart.",
                server=self._command.name,
                hint="Install the tested version with `aop outbound install`, and start again.",
            )
        self._pinned = pin

    def _refusal(self, tool: str, text: str) -> Refusal:
        return refusal(self._command.name, tool, text, token=self._command.token, redact=self._redact)

    def _unavailable(self, waiting: Sequence[_Request], error: BaseException) -> Refusal:
        tool = waiting[0].tool if waiting else ""
        why = str(error) if isinstance(error, ServerGone) else type(error).__name__
        return RemoteUnavailable(
            f"The MCP server `{self._command.name}` failed at `{tool}`: {why}.", server=self._command.name, tool=tool
        )


def _fail(waiting: Sequence[_Request], refusal: Refusal) -> None:
    for request in waiting:
        _settle(request, refusal)


def _settle(request: _Request, answer: Any) -> None:
    """Answer a call, unless it was cancelled."""
    with suppress(asyncio.InvalidStateError):
        if request.answer.cancelled():
            return
        if isinstance(answer, Refusal):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)


def _value(result: stdio_client.ToolAnswer) -> Json:
    """Return the answer of a tool: some wrap it as `result`, some write JSON as text."""
    value: Any = result.structured_content
    if isinstance(value, dict) and set(value) == {"result"}:
        value = value["result"]
    if value is None:
        value = result.text
    if not isinstance(value, str):
        answer: Json = value
        return answer
    try:
        return parse_json(value)
    except MalformedText:
        return value
