"""`aop serve`: serve many agents and webhooks over HTTP on this machine."""

from __future__ import annotations

import argparse

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import ask_models_argument, open_app
from aop.cli.shell.terminal import Terminal

DEFAULT_PORT = 4777


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help=f"0 chooses a free port (default: {DEFAULT_PORT})"
    )
    ask_models_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped; print the address on stdout."""
    import asyncio

    from aop.adapters.machine.sockets import loopback_socket
    from aop.cli.tickets.webhooks import served_webhooks
    from aop.mcpserver.http import origin_of, serve_http
    from aop.web.forge_routes import forge_routes

    def announce(url: str) -> None:
        terminal.line({"url": url}, url)

    with (
        open_app(arguments, asks_models=arguments.ask_models) as app,
        loopback_socket(arguments.port) as listening,
        served_webhooks(app.root, app.settings, terminal.say) as webhooks,
    ):
        stopping = asyncio.Event()
        routes = [*webhooks, *forge_routes(app.gateway, origin_of(listening), stopping, log=terminal.say)]
        serve_http(
            app.gateway, app.tokens, listening, announce=announce, log=terminal.say, routes=routes, stopping=stopping
        )
    return Exit.OK
