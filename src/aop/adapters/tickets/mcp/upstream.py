"""An MCP server of somebody else's, as a child process: one task owns its client, and starts it anew when it died.

What a server answers is a stranger's text: read as JSON where it is JSON, cut short and without secrets in errors. Its
child gets only the environment that is named for it.
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

from aop.adapters.tickets.mcp.failures import refusal
from aop.adapters.tickets.mcp.stdio_client import (
    ListedTool,
    ServerCommand,
    ServerGone,
    ServerSaidNo,
    StdioClient,
    ToolAnswer,
    connected,
)
from aop.brains.conversation import Offer
from aop.core.errors import Json, Refusal, RemoteToolsMissing, RemoteUnavailable
from aop.core.text.json import MalformedText, parse_json
from aop.tickets.ports import KnownTool

_WORD = re.compile(r"\w+")


class _Asked(Struct, frozen=True):
    tool: str
    """Empty: what tools are there."""
    arguments: Mapping[str, Any]
    answer: Future[Any]


class Upstream:
    """One server. Its calls go one after the other; any event loop may await them."""

    def __init__(
        self,
        command: ServerCommand,
        needed: Sequence[KnownTool],
        portal: asyncio.AbstractEventLoop,
        redact: Callable[[str], str],
    ) -> None:
        self._command = command
        self._needed = tuple(needed)
        self._portal = portal
        self._redact = redact
        self._pinned = ""
        self._asked: asyncio.Queue[_Asked | None] = asyncio.Queue()
        self._ended = asyncio.run_coroutine_threadsafe(self._serve(), portal)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool, and return the JSON that it answers, or its text.

        Raises: RemoteNotFound, RemoteRejected, RemoteUnavailable, RemoteToolsMissing.
        """
        answer: Json = await self._put(tool, arguments)
        return answer

    async def tools(self) -> Sequence[Offer]:
        """Return what the server can do."""
        listed: Sequence[ListedTool] = await self._put("", {})
        return [Offer(name=tool.name, description=tool.description or "", schema=tool.input_schema) for tool in listed]

    def close(self) -> None:
        """Let the child end; calls that wait come first."""
        self._portal.call_soon_threadsafe(self._asked.put_nowait, None)
        self._ended.result()

    async def _put(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        asked = _Asked(tool, arguments, Future())
        self._portal.call_soon_threadsafe(self._asked.put_nowait, asked)
        return await asyncio.wrap_future(asked.answer)

    async def _serve(self) -> None:
        while (asked := await self._asked.get()) is not None:
            waiting: list[_Asked] = [asked]
            try:
                if await self._connected(waiting):
                    return
            except (ServerGone, ServerSaidNo, OSError) as error:
                _fail(waiting, self._lost(waiting, error))
            except RemoteToolsMissing as missing:
                _fail(waiting, missing)

    async def _connected(self, waiting: list[_Asked]) -> bool:
        """Answer calls until the child is gone; tell whether there will be no more of them.

        The call that is being answered stands in `waiting`, for whoever must say that it failed.
        """
        async with connected(self._command) as client:
            self._checked(client.tools)
            while waiting:
                await self._answer(client, waiting[0])
                waiting.clear()
                more = await self._asked.get()
                if more is None:
                    return True
                waiting.append(more)
        return False

    async def _answer(self, client: StdioClient, asked: _Asked) -> None:
        if not asked.tool:
            _settle(asked, client.tools)
            return
        if asked.tool not in {tool.name for tool in client.tools}:
            _settle(asked, RemoteToolsMissing(f"`{self._command.name}` has no tool `{asked.tool}`.", tool=asked.tool))
            return
        try:
            result = await client.call(asked.tool, asked.arguments)
        except ServerSaidNo as error:
            _settle(asked, self._refusal(asked.tool, str(error)))
            return
        value = result.text if result.is_error else _value(result)
        if isinstance(value, dict) and set(value) == {"error"}:
            # Some servers answer an error as if it were a result.
            _settle(asked, self._refusal(asked.tool, str(value["error"])))
        else:
            _settle(asked, self._refusal(asked.tool, str(value)) if result.is_error else value)

    def _checked(self, tools: Sequence[ListedTool]) -> None:
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
        self._hold_to(tools)

    def _hold_to(self, tools: Sequence[ListedTool]) -> None:
        """Refuse a server that was started anew and means something else by the tools that are needed.

        Raises: RemoteToolsMissing.
        """
        needed = {need.tool for need in self._needed}
        shown = [tool for tool in sorted(tools, key=lambda tool: tool.name) if tool.name in needed]
        # By its words: a server may list what is a set, in another order each time that it is started.
        words = sorted(_WORD.findall(msgspec.json.encode(shown).decode()))
        pin = sha256("\0".join(words).encode()).hexdigest()
        if pin != (self._pinned or pin):
            raise RemoteToolsMissing(
                f"The MCP server `{self._command.name}` describes its tools otherwise than when it was first started.",
                server=self._command.name,
                hint="Look what changed it, install the version that `docs/tickets.md` names, and start again.",
            )
        self._pinned = pin

    def _refusal(self, tool: str, text: str) -> Refusal:
        return refusal(self._command.name, tool, text, token=self._command.token, redact=self._redact)

    def _lost(self, waiting: Sequence[_Asked], error: BaseException) -> Refusal:
        tool = waiting[0].tool if waiting else ""
        why = str(error) if isinstance(error, ServerGone) else type(error).__name__
        return RemoteUnavailable(
            f"The MCP server `{self._command.name}` was lost at `{tool}`: {why}.",
            server=self._command.name,
            tool=tool,
        )


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


def _value(result: ToolAnswer) -> Json:
    """Return what a tool answered: some wrap it as `result`, some write JSON as text."""
    value: Any = result.structured_content
    if isinstance(value, dict) and set(value) == {"result"}:
        value = value["result"]
    if value is None:
        value = result.text
    if not isinstance(value, str):
        told: Json = value
        return told
    try:
        return parse_json(value)
    except MalformedText:
        return value
