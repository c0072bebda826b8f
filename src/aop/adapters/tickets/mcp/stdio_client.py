"""An MCP client over the standard streams of a child process, no larger than what AOP asks of a server: its tools.

The client of the SDK costs a second of imports, which is more than a whole scaffold may take. A server's own questions
(sampling, elicitation, roots) are refused, and its list of tools counts as it was at the start.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
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


class ListedTool(Struct, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server lists it."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any]


class ToolAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tool answered."""

    content: list[dict[str, Any]] = []
    structured_content: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """Return the parts that are text."""
        return "\n".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")


class ServerGone(Exception):
    """The child ended, is silent, or speaks something else; nobody knows what it did."""


class ServerSaidNo(Exception):
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


class _Agreed(Struct, frozen=True, rename="camel"):
    protocol_version: str


class StdioClient:
    """A server that was started and greeted. It is asked one thing after the other."""

    def __init__(self, to: StreamWriter, from_: StreamReader, seconds: float) -> None:
        self._to = to
        self._from = from_
        self._seconds = seconds
        self._asked = 0
        self.tools: tuple[ListedTool, ...] = ()

    async def greet(self) -> None:
        """Agree on the protocol, and learn which tools there are.

        Raises: ServerGone, ServerSaidNo.
        """
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "aop", "version": VERSION}}
        agreed = _read(await self._request("initialize", hello), _Agreed)
        if agreed.protocol_version not in KNOWN_PROTOCOLS:
            raise ServerGone(f"it speaks MCP {agreed.protocol_version[:20]}")
        await self._send({"method": "notifications/initialized"})
        found: list[ListedTool] = []
        cursor: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            page = _read(await self._request("tools/list", cursor), _Page)
            found += page.tools
            if not page.next_cursor:
                break
            cursor = {"cursor": page.next_cursor}
        if len({tool.name for tool in found}) < len(found):
            raise ServerGone("it lists two tools of one name")
        self.tools = tuple(found)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool.

        Raises: ServerGone, ServerSaidNo.
        """
        return _read(await self._request("tools/call", {"name": tool, "arguments": dict(arguments)}), ToolAnswer)

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        self._asked += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._send({"id": self._asked, "method": method, "params": params})
                return await self._answered(self._asked)
        except TimeoutError as error:
            raise ServerGone(f"no answer to {method} within {self._seconds:.0f} s") from error
        except (OSError, ValueError) as error:
            # A ValueError is a line that is longer than any answer may be.
            raise ServerGone(type(error).__name__) from error

    async def _answered(self, number: int) -> Any:
        while line := await self._from.readline():
            message = _message(line)
            if message is None:
                continue
            if message.method is not None:
                await self._refuse(message)
            elif message.id == number:
                if message.error is not None:
                    raise ServerSaidNo(message.error.message)
                return message.result
        raise ServerGone("it ended")

    async def _refuse(self, message: _Message) -> None:
        """Answer what the server asks of us: that we are here, and nothing else."""
        if message.id is None:
            return
        if message.method == "ping":
            await self._send({"id": message.id, "result": {}})
        else:
            problem = {"code": METHOD_NOT_FOUND, "message": "This client answers no requests."}
            await self._send({"id": message.id, "error": problem})

    async def _send(self, message: Mapping[str, Any]) -> None:
        self._to.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        await self._to.drain()


@asynccontextmanager
async def connected(command: ServerCommand) -> AsyncIterator[StdioClient]:
    """Have a server that is ready; its process, and what it started, end with the block.

    Raises: ServerGone, ServerSaidNo, OSError.
    """
    process = await asyncio.create_subprocess_exec(
        command.command,
        *command.args,
        env=dict(command.env),
        cwd=command.folder,
        stdin=PIPE,
        stdout=PIPE,
        # Its own log may hold what others must not see.
        stderr=DEVNULL,
        limit=LARGEST_MESSAGE,
        start_new_session=True,
    )
    if process.stdin is None or process.stdout is None:
        raise Fault("A child was started without its streams.")
    try:
        client = StdioClient(process.stdin, process.stdout, command.call_seconds)
        await client.greet()
        yield client
    finally:
        process.stdin.close()
        await _end(process)


async def _end(process: Process) -> None:
    """Wait for a child whose input is closed; one that goes on is ended, and so is all that it started."""
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
    """Read a line; what is no message is no answer."""
    try:
        return msgspec.json.decode(line, type=_Message)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _read(result: Any, shape: type[T]) -> T:
    try:
        return msgspec.convert(result, type=shape)
    except msgspec.ValidationError as error:
        raise ServerSaidNo(f"an answer that is none: {error}") from error
