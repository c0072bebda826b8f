"""`python -m bench.pageless ROOT`: serve a repository as `aop serve` does, but no page."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from aop.adapters.machine.sockets import loopback_socket
from aop.mcpserver.http import origin_of, serve_http
from aop.web.forge.forge_routes import forge_routes
from aop.wiring.build import Settings, build


def main(root: Path) -> None:
    """Serve until a signal arrives."""
    app = build(root, Settings.from_env(os.environ))
    with loopback_socket(0) as listening:
        origin, stopping = origin_of(listening), asyncio.Event()
        routes = forge_routes(app.gateway, origin, stopping, log=print)
        serve_http(
            app.gateway,
            app.tokens,
            listening,
            announce=lambda url: print(url, flush=True),
            log=print,
            routes=routes,
            stopping=stopping,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
