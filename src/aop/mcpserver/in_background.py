"""The HTTP door beside other work of this process: for the agents that a supervisor starts, for as long as it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aop.adapters.machine.sockets import LOOPBACK, loopback_socket
from aop.core.errors import Fault
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.tokens import Tokens
from aop.mcpserver.door import Door
from aop.mcpserver.http import PATH, Serving, caller_of_request

READY_SECONDS = 30.0


@contextmanager
def served_beside(gateway: Gateway, tokens: Tokens, log: Callable[[str], None]) -> Iterator[str]:
    """Serve in a thread on a free port of this machine; give the address."""
    with loopback_socket(0) as listening:
        door, ready = Door(gateway, caller_of_request, log), threading.Event()
        origin = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        serving = Serving(door, tokens, origin, lambda _url: ready.set())
        thread = threading.Thread(target=lambda: asyncio.run(serving.until_stopped(listening)), daemon=True)
        thread.start()
        if not ready.wait(READY_SECONDS):
            raise Fault("AOP's own MCP server did not come up.")
        try:
            yield origin + PATH
        finally:
            serving.stop()
            thread.join()
            door.close()
