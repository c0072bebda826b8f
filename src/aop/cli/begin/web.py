"""`aop web`: open the pages of this repository, and serve them if need be."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from urllib.parse import urlencode

from aop.adapters.machine.sockets import ListeningSocket, loopback_socket
from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.cli.screens.page_links import PageLink, show
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.kernel.gateway.page_sessions import PageSessions
from aop.kernel.gateway.principals import refuse_agent
from aop.wiring.build import App
from aop.wiring.server_lease import address_of_pages, server_of

LOG = "server.log"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="the port of a new server (default: any free one)"
    )
    parser.add_argument("--print", action="store_true", help="print the link instead of opening a browser")
    parser.add_argument(
        "--numeric", action="store_true", help="link to 127.0.0.1, for browsers that do not know names in `.localhost`"
    )
    parser.add_argument("--to", default="/", metavar="PATH", help="the page to open (default: the inbox)")
    parser.add_argument("--stop", action="store_true", help="stop the server of this repository")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find or start the server, and open a link that lets one person in once."""
    with open_app(arguments) as app:
        refuse_agent("`aop web`", app.person)
        serving = server_of(app.root)
        if arguments.stop:
            return _stop(serving, terminal)
        if serving is not None:
            return _open(app, serving, arguments, terminal)
    return _start(arguments, terminal)


def _stop(serving: LeaseHolder | None, terminal: Terminal) -> int:
    if serving is None:
        return terminal.done({"stopped": None}, "No server serves this repository.")
    os.kill(serving.pid, signal.SIGTERM)
    return terminal.done({"stopped": serving.pid}, f"Stopped the server (process {serving.pid}).")


def _start(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.machine.background import run_in_background

    def opened(_pid: int) -> int:
        with open_app(arguments) as app:
            serving = server_of(app.root)
            if serving is None:
                terminal.say("aop: The server ended at once. Its log is .aop/server.log")
                return Exit.FAILED
            return _open(app, serving, arguments, terminal)

    with open_app(arguments) as app:
        log = app.root / ".aop" / LOG
    # Bound here, so that a port of another process is refused before anything is started.
    with loopback_socket(arguments.port) as listening:
        return run_in_background(log, lambda ready: _serve(arguments, listening, ready), opened)


def _serve(arguments: argparse.Namespace, listening: ListeningSocket, ready: Callable[[], None]) -> int:
    from aop.cli.agents.serve import serve_repository

    with open_app(arguments) as app:
        serve_repository(app, listening, announce=lambda _url: ready(), log=Terminal(json=False).say)
    return Exit.OK


def _open(app: App, serving: LeaseHolder, arguments: argparse.Namespace, terminal: Terminal) -> int:
    sessions = PageSessions(tokens=app.tokens)
    address = serving.url if arguments.numeric else address_of_pages(app, serving)
    words = {"link": sessions.link(by=app.person.actor), "to": arguments.to}
    link = PageLink(url=f"{address}/enter?{urlencode(words)}", pid=serving.pid, repository=app.root.name)
    facts: dict[str, Json] = {"url": link.url, "pid": link.pid, "repository": link.repository}
    if arguments.print or terminal.json or not show(link, terminal):
        return terminal.result(facts, link.url)
    return terminal.done(facts, "Opened the pages in your browser. Stop their server with: aop web --stop")
