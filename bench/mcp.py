"""What a call of a tool that reads costs over MCP, next to a server of the SDK with a tool that does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from aop.mcpserver.tool_server import ToolServer
from bench.bare import NOTHING, bare_server
from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, in_turns
from bench.scenes import Scene

AOP = (sys.executable, "-m", "aop.cli.main")
BARE = (sys.executable, "-m", "bench.bare")
HERE = Path(__file__).parents[1]

Connection = Callable[[str, dict[str, Any]], object]
"""Calls a tool that must succeed."""


def mcp(effort: Effort) -> Iterator[Measurement]:
    """Measure `feature.state_get` in memory, over standard streams and over HTTP."""
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.call("feature.init", feature_id="one")
        ways = {"in memory": _in_memory, "stdio": _over_stdio, "HTTP": _over_http}
        for name, way in ways.items():
            ours, floor = way(scene)
            with ours as gateway, floor as bare:
                yield _measured(name, gateway, bare, turns=effort.turns * 10)


def _measured(name: str, gateway: Connection, bare: Connection, *, turns: int) -> Measurement:
    read: Act = lambda _: gateway("feature.state_get", {"feature_id": "one"})  # noqa: E731
    took, floor = in_turns(read, lambda _: bare(NOTHING, {}), turns=turns)
    return Measurement(
        name=f"feature.state_get over MCP, {name}",
        ours=took,
        floor=floor,
        floor_name="an empty tool",
        budget=Budget("over", 2.0),
    )


Pair = tuple[AbstractContextManager[Connection], AbstractContextManager[Connection]]


def _in_memory(scene: Scene) -> Pair:
    server = ToolServer(scene.app.gateway, lambda: scene.app.person, lambda line: print(line, file=sys.stderr))
    return _connected(server.mcp_server()), _connected(bare_server())


def _over_stdio(scene: Scene) -> Pair:
    environment = {**os.environ, "AOP_TOKEN": scene.token()}
    words = [*AOP[1:], "mcp", "--repo", str(scene.root)]
    ours = StdioServerParameters(command=AOP[0], args=words, env=environment)
    floor = StdioServerParameters(command=BARE[0], args=[*BARE[1:], "stdio"], cwd=HERE, env=dict(os.environ))
    return _connected(ours), _connected(floor)


def _over_http(scene: Scene) -> Pair:
    ours = _served_over_http((*AOP, "serve", "--port", "0", "--json", "--repo", str(scene.root)), scene.token())
    return ours, _served_over_http((*BARE, "http"), "none")


@contextmanager
def _connected(to: Any) -> Iterator[Connection]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(to)) as client:

        def call(tool: str, arguments: dict[str, Any]) -> object:
            result = portal.call(client.call_tool, tool, arguments)
            if result.is_error:
                raise RuntimeError(f"{tool} was refused: {result.content}")
            return result

        yield call


@contextmanager
def _served_over_http(argv: tuple[str, ...], token: str) -> Iterator[Connection]:
    with serving(argv) as url, connected_over_http(url, token) as call:
        yield call


def connected_over_http(url: str, token: str) -> AbstractContextManager[Connection]:
    """Connect to a server over HTTP."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    return _connected(streamable_http_client(url, http_client=http))


@contextmanager
def serving(argv: tuple[str, ...]) -> Iterator[str]:
    """Run a server that prints its address as JSON; return the address."""
    with subprocess.Popen(argv, cwd=HERE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["data"]["url"]
        finally:
            process.terminate()
