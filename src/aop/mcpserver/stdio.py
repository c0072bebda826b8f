"""One client over standard input and output, whose token came with the environment."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.mcpserver.door import Door


def serve_stdio(gateway: Gateway, identify: Callable[[], Principal], log: Callable[[str], None]) -> None:
    """Serve until the client closes our input; calls that are running then come to their end."""
    door = Door(gateway, identify, log)
    try:
        anyio.run(_serve, door)
    finally:
        door.close()


async def _serve(door: Door) -> None:
    server = door.server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
