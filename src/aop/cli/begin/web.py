"""`aop web`: open the pages of this repository, and serve them if need be."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from urllib.parse import urlencode

from msgspec import Struct

from aop.adapters.machine.background import run_in_background
from aop.adapters.machine.sockets import ListeningSocket, loopback_socket
from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.cli.screens.page_links import PageLink, show
from aop.cli.shell.exits import Exit
from aop.cli.shell.platform_home import (
    PlatformHome,
    named_reach,
    platform_arguments,
    platform_home,
    refuse_agents,
    repositories_argument,
)
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.kernel.gateway.page_sessions import PageSessions
from aop.kernel.gateway.principals import refuse_agent
from aop.kernel.gateway.tokens import NOTHING, Reach
from aop.wiring.build import App, Settings
from aop.wiring.server_lease import address_of_pages, server_at, server_of

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
    platform_arguments(parser, "the pages of all repositories of AOP_DATABASE")
    repositories_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find or start the server, and open a link that lets one person in once."""
    if arguments.platform:
        return _run_platform(arguments, terminal)
    if arguments.repositories is not None:
        raise InvalidCliArgs("`--repositories` is for the pages of a platform.", hint="Add `--platform`.")
    with open_app(arguments) as app:
        refuse_agent("`aop web`", app.person)
        serving = server_of(app.root)
        if arguments.stop:
            return _stop(serving, terminal)
        if serving is not None:
            return _open(_way(app), serving, arguments, terminal)
    return _start(arguments, terminal)


def _run_platform(arguments: argparse.Namespace, terminal: Terminal) -> int:
    settings = Settings.from_env(os.environ)
    refuse_agents("aop web", settings)
    with platform_home(settings) as home:
        serving = server_at(home.folder)
        if arguments.stop:
            return _stop(serving, terminal, "this platform")
        reach = named_reach(home, arguments.repositories) or Reach(everything=True)
        if serving is not None:
            return _open(_platform_way(home, reach), serving, arguments, terminal)

    def opened(_pid: int) -> int:
        with platform_home(settings) as home:
            serving = server_at(home.folder)
            if serving is None:
                terminal.say(f"aop: The server ended at once. Its log is {home.folder / LOG}")
                return Exit.FAILED
            return _open(_platform_way(home, reach), serving, arguments, terminal)

    with loopback_socket(arguments.port) as listening:
        return run_in_background(home.folder / LOG, lambda ready: _serve_platform(listening, ready), opened)


def _stop(serving: LeaseHolder | None, terminal: Terminal, place: str = "this repository") -> int:
    if serving is None:
        return terminal.done({"stopped": None}, f"No server serves {place}.")
    os.kill(serving.pid, signal.SIGTERM)
    return terminal.done({"stopped": serving.pid}, f"Stopped the server (process {serving.pid}).")


def _start(arguments: argparse.Namespace, terminal: Terminal) -> int:
    def opened(_pid: int) -> int:
        with open_app(arguments) as app:
            serving = server_of(app.root)
            if serving is None:
                terminal.say("aop: The server ended at once. Its log is .aop/server.log")
                return Exit.FAILED
            return _open(_way(app), serving, arguments, terminal)

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


def _serve_platform(listening: ListeningSocket, ready: Callable[[], None]) -> int:
    from aop.cli.shell.platform_server import serve_platform

    with platform_home(Settings.from_env(os.environ)) as home:
        serve_platform(home, listening, announce=lambda _url: ready(), log=Terminal(json=False).say)
    return Exit.OK


class _Way(Struct, frozen=True, kw_only=True):
    """The way of one person to some pages."""

    sessions: PageSessions
    actor: str
    reach: Reach
    name: str
    """The repository, or the database of a platform."""


def _way(app: App) -> _Way:
    sessions = PageSessions(tokens=app.tokens)
    return _Way(sessions=sessions, actor=app.person.actor, reach=NOTHING, name=app.root.name)


def _platform_way(home: PlatformHome, reach: Reach) -> _Way:
    return _Way(sessions=home.sessions, actor=home.settings.actor, reach=reach, name=home.title)


def _open(way: _Way, serving: LeaseHolder, arguments: argparse.Namespace, terminal: Terminal) -> int:
    sessions = way.sessions
    address = serving.url if arguments.numeric else address_of_pages(sessions.tokens, serving)
    words = {"link": sessions.link(by=way.actor, reach=way.reach), "to": arguments.to}
    link = PageLink(url=f"{address}/enter?{urlencode(words)}", pid=serving.pid, repository=way.name)
    facts: dict[str, Json] = {"url": link.url, "pid": link.pid, "repository": link.repository}
    if arguments.print or terminal.json or not show(link, terminal):
        return terminal.result(facts, link.url)
    return terminal.done(facts, f"Opened the pages in your browser. Stop their server with: {sessions.command} --stop")
