"""`aop serve`: serve pages, agents and webhooks over HTTP on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from aop.adapters.storage.record.choice import repository_name
from aop.cli.shell.exits import Exit
from aop.cli.shell.platform_home import platform_arguments, platform_home
from aop.cli.shell.repository import ask_models_argument, open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.build import App, Settings

if TYPE_CHECKING:  # few commands serve
    from aop.adapters.machine.sockets import ListeningSocket

DEFAULT_PORT = 4777


DOCTOR_SECONDS = 20.0
"""So long a page waits for the checks of the machine."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help=f"0 chooses a free port (default: {DEFAULT_PORT})"
    )
    platform_arguments(parser, "serve the pages and metrics of all repositories of AOP_DATABASE, to be read")
    ask_models_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped; print the address on stdout."""
    from aop.adapters.machine.sockets import loopback_socket

    def announce(url: str) -> None:
        terminal.line({"url": url}, url)

    if arguments.platform:
        from aop.cli.shell.platform_server import serve_platform

        with platform_home(Settings.from_env(os.environ)) as home, loopback_socket(arguments.port) as listening:
            serve_platform(home, listening, announce=announce, log=terminal.say)
        return Exit.OK
    with open_app(arguments, asks_models=arguments.ask_models) as app, loopback_socket(arguments.port) as listening:
        serve_repository(app, listening, announce=announce, log=terminal.say)
    return Exit.OK


def serve_repository(
    app: App, listening: ListeningSocket, *, announce: Callable[[str], None], log: Callable[[str], None]
) -> None:
    """Serve until a signal arrives; other commands find the first server of a repository by its lease."""
    import asyncio
    from functools import partial

    from aop.adapters.fleet.runs.tickets.chosen_queue import ticket_queue
    from aop.adapters.storage.full_disk import full_disk
    from aop.adapters.tickets.ledger import LEDGER, TicketLedger
    from aop.cli.tickets.webhooks import served_webhooks
    from aop.kernel.gateway.page_sessions import PageSessions
    from aop.mcpserver.http import origin_of, serve_http
    from aop.tickets.runs.history import JoinedHistory
    from aop.web.forge.forge_routes import forge_routes
    from aop.web.pages.page_door import Machine, PageDoor
    from aop.web.pages.page_routes import page_routes
    from aop.web.platform.repository_metrics import repository_metrics_route
    from aop.wiring.server_lease import PRIVATE, hold_server_lease

    origin, stopping, now = origin_of(listening), asyncio.Event(), app.gateway.kernel.now()
    sessions = PageSessions(tokens=app.tokens)
    own, queue, sign = TicketLedger(app.root / LEDGER), ticket_queue(app.settings.environ), app.person.agent_sign
    tickets = own if queue is None else JoinedHistory(own, queue.ledger)
    machine = Machine(
        examine=_examination(app), full_disk=full_disk, pack=_packed, run_command=partial(_run_command, app)
    )
    door = PageDoor(app.gateway, app.root, sessions, origin, log, tickets=tickets, agent_sign=sign, machine=machine)
    with served_webhooks(app.root, app.settings, log) as webhooks, hold_server_lease(app.root / PRIVATE, origin, now):
        routes = [*webhooks, *forge_routes(app.gateway, origin, stopping, log=log), *page_routes(door, stopping)]
        routes.append(repository_metrics_route(door, repository_name(app.root, app.settings.environ)))
        serve_http(app.gateway, app.tokens, listening, announce=announce, log=log, routes=routes, stopping=stopping)


def _packed(files: Mapping[str, bytes], folder: str) -> bytes:
    """Return files and their checksums as one archive."""
    from aop.adapters.files.archives import add_checksums, pack_archive

    return pack_archive(add_checksums(files), folder=folder)


def _run_command(app: App, words: Sequence[str]) -> bytes:
    """Return what another `aop` prints for the person at the pages, with the variables of this server."""
    from aop.adapters.machine.background import output_of_command

    return output_of_command([*words, "--json", "--repo", str(app.root)], app.settings.environ)


def _examination(app: App) -> Callable[[], list[dict[str, str]]]:
    """Return what makes the checks of `aop doctor`, without those that run gates or ask other systems."""
    import msgspec

    from aop.adapters.reporting.doctor.examination import examine
    from aop.adapters.reporting.doctor.timed_examination import TimedExamination

    environ, clock = app.settings.environ, app.gateway.kernel.clock
    timed = TimedExamination(lambda begins: examine(app.root, environ, clock.now(), begins), DOCTOR_SECONDS)
    return lambda: [msgspec.to_builtins(check) for check in timed()]
