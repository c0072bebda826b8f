"""`python -m bench.bare stdio|http`: the SDK's server with a tool that does nothing, as a floor for ours."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from aop.adapters.machine.sockets import LOOPBACK, loopback_socket
from aop.mcpserver.http import PATH, mcp_app

NOTHING = "nothing"


def bare_server() -> Server[Any]:
    """Return a server with one tool."""
    return Server("bare", on_list_tools=_listed, on_call_tool=_called)


async def _listed(_context: object, _params: object) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name=NOTHING, input_schema={"type": "object"})])


async def _called(_context: object, _params: object) -> CallToolResult:
    return CallToolResult(content=[TextContent(text="{}")], structured_content={})


async def _over_stdio() -> None:
    server = bare_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _over_http() -> None:
    with loopback_socket(0) as listening:
        listening.listen()
        origin = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        print(json.dumps({"data": {"url": origin + PATH}}), flush=True)
        config = uvicorn.Config(mcp_app(bare_server(), origin), log_config=None, access_log=False)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        anyio.run(_over_stdio)
    else:
        _over_http()
