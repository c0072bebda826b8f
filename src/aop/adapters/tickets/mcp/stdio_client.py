"""Stdio client: an MCP client for the tools of a child process.

Importing the SDK's client takes a second, longer than a whole scaffold. Requests of the server (sampling, elicitation,
roots) are refused, and its list of tools is read once, at the start.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from aop.core.errors import Fault
from aop.core.version import VERSION

PROTOCOL = "2025-06-18"
KNOWN_PROTOCOLS = ("2025-11-25", PROTOCOL, "2025-03-26", "2024-11-05")
LARGEST_MESSAGE = 16 * 1024 * 1024
MOST_PAGES = 50
METHOD_NOT_FOUND = -32601
CALL_SECONDS = 60.0
_ENDING_SECONDS = 2.0

T = TypeVar("T", bound=Struct)


class ServerCommand(Struct, frozen=True, kw_only=True):
    """The command that starts a server."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    folder: str | None = None
    """Its working folder: some servers read an `.env` there."""
    token: str = ""
    """The variable of its token, for hints."""
    call_seconds: float = CALL_SECONDS


class ListedTool(Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server lists it."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any]


class ToolAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of a tool."""

    content: list[dict[str, Any]] = []
    structured_content: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """Return the text parts."""
        return "\n".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")


class ServerGone(Exception):
    """The child ended, did not answer, or speaks another protocol; its effects are unknown."""


class ServerError(Exception):
    """The server answered a request with an error."""


class _Problem(Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Message(Struct, frozen=True):
    id: int | str | None = None
    method: str | None = None
    result: Any = None
    error: _Problem | None = None


class _Page(Struct, frozen=True, rename="camel"):
    tools: list[ListedTool]
    next_cursor: str | None = None


class _Initialized(Struct, frozen=True, rename="camel"):
    protocol_version: str


class StdioClient:
    """A connection to a started server, with one request at a time."""

    def __init__(self, to: StreamWriter, from_: StreamReader, seconds: float, kill: Callable[[], None]) -> None:
        self.kill = kill
        """Ends the server and its children at once."""
        self._to = to
        self._from = from_
        self._seconds = seconds
        self._asked = 0
        self.tools: tuple[ListedTool, ...] = ()

    async def initialize(self) -> None:
        """Initialize the connection, and list the tools. Raises: ServerGone, ServerError."""
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "aop", "version": VERSION}}
        initialized = _parsed(await self._request("initialize", hello), _Initialized)
        if initialized.protocol_version not in KNOWN_PROTOCOLS:
            raise ServerGone(f"it speaks MCP {initialized.protocol_version[:20]}")
        await self._send({"method": "notifications/initialized"})
        found: list[ListedTool] = []
        cursor: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            page = _parsed(await self._request("tools/list", cursor), _Page)
            found += page.tools
            if not page.next_cursor:
                break
            cursor = {"cursor": page.next_cursor}
        if len({tool.name for tool in found}) < len(found):
            raise ServerGone("it lists two tools with the same name")
        self.tools = tuple(found)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool. Raises: ServerGone, ServerError."""
        return _parsed(await self._request("tools/call", {"name": tool, "arguments": dict(arguments)}), ToolAnswer)

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        self._asked += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._send({"id": self._asked, "method": method, "params": params})
                return await self._answer_to(self._asked)
        except TimeoutError as error:
            raise ServerGone(f"no answer to {method} within {self._seconds:.0f} s") from error
        except (OSError, ValueError) as error:
            # A ValueError means a line above the size limit.
            raise ServerGone(type(error).__name__) from error

    async def _answer_to(self, number: int) -> Any:
        while line := await self._from.readline():
            message = _message(line)
            if message is None:
                continue
            if message.method is not None:
                await self._refuse(message)
            elif message.id == number:
                if message.error is not None:
                    raise ServerError(message.error.message)
                return message.result
        raise ServerGone("it ended")

    async def _refuse(self, message: _Message) -> None:
        """Answer a ping of the server, and refuse its other requests."""
        if message.id is None:
            return
        if message.method == "ping":
            await self._send({"id": message.id, "result": {}})
        else:
            problem = {"code": METHOD_NOT_FOUND, "message": "This client does not support requests."}
            await self._send({"id": message.id, "error": problem})

    async def _send(self, message: Mapping[str, Any]) -> None:
        self._to.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        await self._to.drain()


@asynccontextmanager
async def connected(command: ServerCommand) -> AsyncIterator[StdioClient]:
    """Start a server; its processes end with the block. Raises: ServerGone, ServerError, OSError."""
    process = await asyncio.create_subprocess_exec(
        command.command,
        *command.args,
        env=dict(command.env),
        cwd=command.folder,
        stdin=PIPE,
        stdout=PIPE,
        # Its log may contain secrets.
        stderr=DEVNULL,
        limit=LARGEST_MESSAGE,
        start_new_session=True,
    )
    if process.stdin is None or process.stdout is None:
        raise Fault("A child process has no standard streams.")
    try:
        kill = partial(_signal, process, signal.SIGKILL)
        client = StdioClient(process.stdin, process.stdout, command.call_seconds, kill)
        await client.initialize()
        yield client
    finally:
        process.stdin.close()
        await _end(process)


async def _end(process: Process) -> None:
    """Wait for a child whose input is closed; end it and its children if it does not stop."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            async with asyncio.timeout(_ENDING_SECONDS):
                await process.wait()
                break
        except TimeoutError:
            _signal(process, number)
    await process.wait()
    _signal(process, signal.SIGKILL)


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _message(line: bytes) -> _Message | None:
    """Parse a line, or return None if it is not a message."""
    try:
        return msgspec.json.decode(line, type=_Message)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _parsed(result: Any, shape: type[T]) -> T:
    try:
        return msgspec.convert(result, type=shape)
    except msgspec.ValidationError as error:
        raise ServerError(f"an invalid answer: {error}") from error
