"""Tool server: the gateway's tools as an MCP server, for any transport."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeVar

import anyio
import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from aop.core.errors import InternalError, InvalidArguments, Refusal
from aop.core.version import VERSION
from aop.kernel.gateway.calls import Envelope, refusal_envelope
from aop.kernel.gateway.gateway import Gateway, ToolRequest
from aop.kernel.gateway.principals import Principal
from aop.mcpserver.brief_calls import BriefCalls
from aop.mcpserver.tool_listing import OPERATION_ID, mcp_tool, names_by_alias
from aop.wiring.build import make_ready_for_threads

CALLS_AT_ONCE = 64
"""Threads, each with a connection to the record. A gate run occupies one until it ends."""

META_OPERATION_ID = "aop/operation_id"
META_ERROR = "aop/error"

HOST_ARGUMENTS = frozenset({"wait_for_previous"})
"""Arguments that a host adds to every call (Gemini CLI)."""

INSTRUCTIONS = (
    "AOP checks your work and decides what is merged. A refused call changed nothing: its text gives the reason and "
    "the next step. Pass an `operation_id` with a call that may take long; if you lose its answer, repeat the call "
    "with the same id."
)

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class ToolServer:
    """Serves the tools of one gateway to MCP clients."""

    def __init__(self, gateway: Gateway, identify: Callable[[], Principal], log: Callable[[str], None]) -> None:
        """`identify` returns the sender of the current request, or raises `TokenInvalid`."""
        self._gateway = gateway
        self._identify = identify
        self._log = log
        make_ready_for_threads()
        self._names = names_by_alias(gateway.tools)
        self._mcp_tool = cache(lambda name: mcp_tool(gateway.tools[name]))
        for name, tool in gateway.tools.items():
            # A schema is made from sources, which two threads of Python 3.11 cannot parse at the same moment.
            if not tool.person_only:
                self._mcp_tool(name)
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="call")
        self._brief = BriefCalls(self._answer_together)

    def mcp_server(self) -> Server[Any]:
        """Return the server that a transport runs."""
        return Server(
            "aop",
            version=VERSION,
            title="AOP",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            # The SDK looks here for arguments that belong in a header too; no tool of ours has any.
            get_tool_input_schema=lambda _name: None,
            # The list depends on the caller, so a shared cache must not store it.
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
        )

    def close(self) -> None:
        """Finish the running calls, also those whose client has gone."""
        self._threads.shutdown(wait=True)
        self._brief.close()

    async def _list_tools(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        try:
            return types.ListToolsResult(tools=await self._in_thread(self._tools_for, self._log_faults(self._identify)))
        except Refusal as refusal:
            answer = refusal_envelope(refusal).as_json()
            raise MCPError(types.INTERNAL_ERROR, f"{refusal.code}: {refusal.message}", answer) from refusal

    def _tools_for(self, principal: Principal) -> list[types.Tool]:
        return [self._mcp_tool(tool.name) for tool in self._gateway.tools_for(principal)]

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            asked = self._gateway_call(context, params)
            tool = self._gateway.tools.get(asked.tool)
            if tool is not None and tool.brief:
                return as_result(await self._brief.answer(asked))
            return as_result(await self._answer(context, asked))
        except Refusal as refusal:
            return as_result(refusal_envelope(refusal))

    def _gateway_call(self, context: Context, params: types.CallToolRequestParams) -> ToolRequest:
        """Translate a client's request into a call of the gateway. Raises: TokenInvalid, InvalidArguments."""
        principal = self._log_faults(self._identify)
        name = self._names.get(params.name, params.name)
        tool = self._gateway.tools.get(name)
        arguments = {key: value for key, value in (params.arguments or {}).items() if key not in HOST_ARGUMENTS}
        given = [(context.meta or {}).get(META_OPERATION_ID)]
        if tool is not None and tool.mutates:
            given.append(arguments.pop(OPERATION_ID, None))
        own_id = _single_operation_id(given)
        return ToolRequest(
            principal=principal,
            tool=name,
            arguments=arguments,
            operation_id=self._gateway.kernel.new_id("op") if own_id is None else own_id,
        )

    async def _answer(self, context: Context, asked: ToolRequest) -> Envelope:
        call, progress = self._gateway.call, _Progress(context)
        do = partial(call, operation_id=asked.operation_id, report=progress.report)
        outcome: Envelope | Refusal
        async with anyio.create_task_group() as group:
            group.start_soon(progress.forward)
            try:
                outcome = await self._in_thread(do, asked.principal, asked.tool, asked.arguments)
            except Refusal as refusal:
                # Raised inside the task group, it would arrive as an exception group.
                outcome = refusal
            progress.end()
        return refusal_envelope(outcome) if isinstance(outcome, Refusal) else outcome

    async def _in_thread(self, do: Callable[..., T], *values: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._log_faults, do, *values))

    def _answer_together(self, calls: Sequence[ToolRequest]) -> Sequence[Envelope]:
        """Answer calls of brief tools together; if that fails, one by one, since mostly one call is the cause."""
        try:
            return self._log_faults(partial(self._gateway.call_together, report=self._log), calls)
        except Refusal:
            return [self._answer_single(asked) for asked in calls]

    def _answer_single(self, asked: ToolRequest) -> Envelope:
        do = partial(self._gateway.call, operation_id=asked.operation_id)
        try:
            return self._log_faults(do, asked.principal, asked.tool, asked.arguments)
        except Refusal as refusal:
            return refusal_envelope(refusal)

    def _log_faults(self, do: Callable[..., T], *values: object) -> T:
        """Call a function; log a fault with its traceback, and raise the `InternalError` that a client may see."""
        try:
            return do(*values)
        except Refusal:
            raise
        except Exception as fault:
            reference = self._gateway.kernel.new_id("fault")
            trace = self._gateway.kernel.redact("".join(traceback.format_exception(fault)))
            self._log(f"{reference}: {trace}")
            message = f"AOP broke while doing this; reference `{reference}`."
            raise InternalError(message, reference=reference) from fault


def _single_operation_id(given: list[object]) -> str | None:
    ids = [value for value in given if value is not None]
    if not ids:
        return None
    if not isinstance(ids[0], str) or ids != [ids[0]] * len(ids):
        raise InvalidArguments(
            f"Pass `{OPERATION_ID}` as one text, in the arguments or as `{META_OPERATION_ID}` in `_meta`."
        )
    return ids[0]


class _Progress:
    """Forwards progress lines from the thread of a call to its client."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def report(self, line: str) -> None:
        # A call outlives a client that disconnects, and then the loop too.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def end(self) -> None:
        self._lines.put_nowait(None)

    async def forward(self) -> None:
        number = 0
        while (line := await self._lines.get()) is not None:
            number += 1
            await self._context.session.report_progress(number, None, line)


def as_result(answer: Envelope) -> types.CallToolResult:
    """Return an answer as a tool result.

    A refusal has no structured content, since some clients check that against the output schema. Its text is not JSON
    alone, since some clients take that for structured content.
    """
    body = answer.as_json()
    text = msgspec.json.encode(body).decode()
    if answer.error is None:
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=body)
    line = f"{answer.error['code']}: {answer.error['message']}"
    return types.CallToolResult(
        content=[types.TextContent(text=f"{line}\n{text}")], is_error=True, _meta={META_ERROR: body}
    )
