"""HTTP transport in a background thread, for the agents that a supervisor starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aop.adapters.machine.sockets import loopback_socket
from aop.core.errors import Fault
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.tokens import Tokens
from aop.mcpserver.http import PATH, HttpServer, caller_of_request, origin_of, tools_app
from aop.mcpserver.tool_server import ToolServer

READY_SECONDS = 30.0


@contextmanager
def served_in_background(gateway: Gateway, tokens: Tokens, log: Callable[[str], None]) -> Iterator[str]:
    """Serve on a free port of this machine until the block ends; yield the address."""
    with loopback_socket(0) as listening:
        tools, ready = ToolServer(gateway, caller_of_request, log), threading.Event()
        origin = origin_of(listening)
        serving = HttpServer(tools_app(tools, tokens, origin), tokens, ready.set, outlived=True)
        thread = threading.Thread(target=lambda: asyncio.run(serving.serve_until_stopped(listening)), daemon=True)
        thread.start()
        if not ready.wait(READY_SECONDS):
            raise Fault("AOP's own MCP server did not start.")
        try:
            yield origin + PATH
        finally:
            serving.stop()
            thread.join()
            tools.close()
