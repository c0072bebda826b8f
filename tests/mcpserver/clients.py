"""The official SDK's client, in plain calls, against real `aop mcp` and `aop serve` processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

import httpx2
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.tokens import TokenOrder
from aop.mcpserver.tool_server import ToolServer
from tests.clocks import HandClock
from tests.prepared_aop import Started, can_run, words_that_start
from tests.world import World

AOP = [sys.executable, "-m", "aop.cli.main"]
MODES = ("auto", "legacy")
"""The newest revision of the protocol, and the newest of those that begin with a handshake."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool result, as a host sees it."""

    text: str
    structured: Any
    is_error: bool
    error: Any
    """The envelope in `_meta`, if it is a refusal."""

    @property
    def data(self) -> Any:
        assert not self.is_error, self.text
        return self.structured["data"]

    @property
    def code(self) -> str | None:
        return None if self.error is None else self.error["error"]["code"]


class Mcp:
    """One connected client."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal = portal
        self.client = client
        self.progress: list[str | None] = []

    @property
    def revision(self) -> str:
        return self.client.protocol_version

    def tools(self) -> list[Tool]:
        return list(self.portal.call(self.client.list_tools).tools)

    def names(self) -> list[str]:
        return [tool.name for tool in self.tools()]

    def call(self, name: str, arguments: Any = None, **meta: Any) -> Answer:
        return answer_of(self.portal.call(self._call, name, arguments, meta))

    async def _call(self, name: str, arguments: Any, meta: Mapping[str, Any]) -> CallToolResult:
        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            self.progress.append(message)

        given = {f"aop/{key}": value for key, value in meta.items()} or None
        return await self.client.call_tool(name, arguments, progress_callback=note, meta=given)  # type: ignore[arg-type]


def answer_of(result: CallToolResult) -> Answer:
    (content,) = result.content
    return Answer(
        text=content.text,  # type: ignore[union-attr]
        structured=result.structured_content,
        is_error=bool(result.is_error),
        error=(result.meta or {}).get("aop/error"),
    )


def token_for(
    world: World,
    role: Role,
    feature: str | None = None,
    *,
    life: timedelta = timedelta(hours=1),
    age: int = 0,
    project: str | None = None,
    build: str | None = None,
) -> str:
    """Return a token that was made so many seconds ago."""
    clock = HandClock("boot-1", 0.0)
    clock.wall = datetime.now(UTC) - timedelta(seconds=age)
    tokens = msgspec.structs.replace(world.app.tokens, clock=clock)
    order = TokenOrder(
        role=role,
        feature_id=None if feature is None else FeatureId(feature),
        project_id=project,
        build_id=build,
        life=life,
    )
    return tokens.issue(order, by="person:ada").text


@contextmanager
def over_stdio(
    root: Path, token: str, *words: str, mode: str = "auto", env: Mapping[str, str] = {}, said: TextIO = sys.stderr
) -> Iterator[Mcp]:
    """Connect to an `aop mcp` of our own, whose errors go to the file `said`."""
    environment = {**os.environ, "AOP_TOKEN": token, **env}
    program, *arguments = words_of(["mcp", "--repo", str(root), *words], environment)
    server = StdioServerParameters(command=program, args=arguments, env=environment)
    connected = Client(stdio_client(server, errlog=said), mode=mode)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(connected) as client:
        yield Mcp(portal, client)


def words_of(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words that start a command of `aop`, in a fork of the prepared process if that may be."""
    return words_that_start(command) if can_run(command, environment) else [*AOP, *command]


@contextmanager
def in_memory(world: World, token: str) -> Iterator[Mcp]:
    """Connect to a server in this process: the same tools and texts, without a process to start."""
    tools = ToolServer(world.app.gateway, lambda: world.app.tokens.principal(token), lambda _line: None)
    try:
        server = Client(tools.mcp_server())
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as client:
            yield Mcp(portal, client)
    finally:
        tools.close()


@contextmanager
def over_http(url: str, token: str, *, mode: str = "auto") -> Iterator[Mcp]:
    """Connect to an `aop serve`."""
    headers = {"Authorization": f"Bearer {token}"}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(httpx2.AsyncClient(headers=headers, timeout=300)) as http,
        portal.wrap_async_context_manager(Client(streamable_http_client(url, http_client=http), mode=mode)) as client,
    ):
        yield Mcp(portal, client)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A running `aop serve`."""

    url: str
    process: subprocess.Popen[str] | Started

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    def stop(self) -> tuple[int, str]:
        """Stop it as a person would; return its exit code and what it said."""
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=300)
        return self.process.wait(300), err


@contextmanager
def served(root: Path, *words: str, **env: str) -> Iterator[Served]:
    """Run `aop serve` on a free port."""
    command, environment = ["serve", "--port", "0", "--json", "--repo", str(root), *words], {**os.environ, **env}
    process = _started(command, environment)
    try:
        assert process.stdout is not None
        yield Served(url=json.loads(process.stdout.readline())["data"]["url"], process=process)
    finally:
        process.kill()
        process.communicate(timeout=300)


def _started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str] | Started:
    if can_run(command, environment):
        return Started(command, cwd=Path.cwd(), env=environment)
    pipe = subprocess.PIPE
    return subprocess.Popen([*AOP, *command], stdout=pipe, stderr=pipe, text=True, env=environment)
