"""`python -m bench.bare stdio|http|bytes FILE...`: servers that do nothing, as a floor for ours.

The first two are the SDK's server with a tool that does nothing; the third has a route for each file, which sends it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aop.adapters.machine.sockets import loopback_socket
from aop.mcpserver.http import PATH, mcp_app, origin_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

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


def _over_http(app_of: Callable[[str], ASGIApp]) -> None:
    with loopback_socket(0) as listening:
        listening.listen()
        origin = origin_of(listening)
        print(json.dumps({"data": {"url": origin + PATH}}), flush=True)
        config = uvicorn.Config(app_of(origin), log_config=None, access_log=False)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def _routes(files: list[Path]) -> ASGIApp:
    bodies = {f"/{file.name}": file.read_bytes() for file in files}

    async def send(request: Request) -> Response:
        return Response(bodies[request.url.path], media_type="application/json")

    return Starlette(routes=[Route(path, send) for path in bodies])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            anyio.run(_over_stdio)
        case ["http"]:
            _over_http(lambda origin: mcp_app(bare_server(), origin))
        case ["bytes", *files]:
            _over_http(lambda _origin: _routes([Path(file) for file in files]))
