"""`aop outbound`: lists the ticket systems, and installs their MCP servers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import msgspec

from aop.adapters.tickets.setup.install import FoundProvider, found_providers, install
from aop.adapters.tickets.setup.servers import PROVIDERS, SERVERS, OutboundServer
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    known = "|".join(name.lower() for name in PROVIDERS)
    parser.add_argument(
        "words",
        metavar="install PROVIDER",
        nargs="*",
        help=f"install the MCP servers of one or more providers: {known}",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run the command."""
    match arguments.words:
        case []:
            return _list(terminal)
        case ["install", _, *_]:
            return _install(arguments.words[1:], terminal)
        case _:
            raise _wrong_use("`aop outbound` takes no arguments, or `install` and one or more providers.")


def _list(terminal: Terminal) -> int:
    found = found_providers(os.environ)
    lines = [f"{provider.provider:<11} {_state_of(provider)}" for provider in found]
    return terminal.result({"providers": msgspec.to_builtins(found)}, "\n".join(lines))


def _state_of(found: FoundProvider) -> str:
    if not found.installed:
        return (
            f"not installed. Install {found.package} {found.tested_version} with: aop outbound install {found.provider}"
        )
    where = f"{found.package} {found.version}" if found.version else "your own command"
    other = found.version not in (None, found.tested_version)
    tested = f" (tested with {found.tested_version})" if other else ""
    unset = [name for name, is_set in found.variables.items() if not is_set]
    return f"{where}{tested}; {'not set: ' + ', '.join(unset) if unset else 'all variables are set'}"


def _install(names: Sequence[str], terminal: Terminal) -> int:
    servers = {server.name: server for server in map(_server_of, names)}
    versions: dict[str, str] = {}
    for server in servers.values():
        terminal.say(f"aop: Installing {server.package} {server.version}; this takes a minute or two.")
        versions[server.package] = install(server, os.environ)
    lines = [f"Installed {name} {version}. Check it with: aop doctor --outbound" for name, version in versions.items()]
    return terminal.result({"installed": {**versions}}, "\n".join(lines))


def _server_of(name: str) -> OutboundServer:
    provider = PROVIDERS.get(name.upper())
    if provider is None:
        raise _wrong_use(f"There is no provider `{ascii(name[:40])[1:-1]}`.")
    return SERVERS[provider.server]


def _wrong_use(message: str) -> InvalidCliArgs:
    return InvalidCliArgs(message, hint=f"The providers are: {', '.join(name.lower() for name in PROVIDERS)}.")
