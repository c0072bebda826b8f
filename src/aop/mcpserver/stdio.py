"""Stdio transport: one client, whose token comes from the environment."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.mcpserver.tool_server import ToolServer


def serve_stdio(gateway: Gateway, identify: Callable[[], Principal], log: Callable[[str], None]) -> None:
    """Serve until the client closes our input, then finish the running calls."""
    tools = ToolServer(gateway, identify, log)
    try:
        anyio.run(_serve, tools)
    finally:
        tools.close()


async def _serve(tools: ToolServer) -> None:
    server = tools.mcp_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
