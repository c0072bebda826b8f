"""`aop serve`: serve pages, agents and webhooks over HTTP on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import ask_models_argument, open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.build import App

if TYPE_CHECKING:  # few commands serve
    from aop.adapters.machine.sockets import ListeningSocket

DEFAULT_PORT = 4777


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help=f"0 chooses a free port (default: {DEFAULT_PORT})"
    )
    ask_models_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped; print the address on stdout."""
    from aop.adapters.machine.sockets import loopback_socket

    def announce(url: str) -> None:
        terminal.line({"url": url}, url)

    with open_app(arguments, asks_models=arguments.ask_models) as app, loopback_socket(arguments.port) as listening:
        serve_repository(app, listening, announce=announce, log=terminal.say)
    return Exit.OK


def serve_repository(
    app: App, listening: ListeningSocket, *, announce: Callable[[str], None], log: Callable[[str], None]
) -> None:
    """Serve until a signal arrives; other commands find the first server of a repository by its lease."""
    import asyncio

    from aop.cli.tickets.webhooks import served_webhooks
    from aop.kernel.gateway.page_sessions import PageSessions
    from aop.mcpserver.http import origin_of, serve_http
    from aop.web.forge.forge_routes import forge_routes
    from aop.web.pages.page_door import PageDoor
    from aop.web.pages.page_routes import page_routes
    from aop.wiring.server_lease import hold_server_lease

    origin, stopping = origin_of(listening), asyncio.Event()
    sessions = PageSessions(tokens=app.tokens)
    door = PageDoor(app.gateway, app.root, sessions, origin, log, agent_sign=app.person.agent_sign)
    with served_webhooks(app.root, app.settings, log) as webhooks, hold_server_lease(app, origin):
        routes = [*webhooks, *forge_routes(app.gateway, origin, stopping, log=log), *page_routes(door, stopping)]
        serve_http(app.gateway, app.tokens, listening, announce=announce, log=log, routes=routes, stopping=stopping)
