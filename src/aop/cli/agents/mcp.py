"""`aop mcp`: serve one agent over standard streams, or configure a host."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from aop.cli.agents.mcp_hosts import FILES, HOSTS, TOKEN_VARIABLE, ServerAddress
from aop.cli.agents.roles import role
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, TokenInvalid
from aop.core.ids import feature_id
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "words", metavar="config HOST", nargs="*", help=f"print the configuration for a host: {', '.join(HOSTS)}"
    )
    parser.add_argument("--role", type=role, metavar="ROLE", help="config: the role of the token")
    parser.add_argument("--feature", metavar="ID", help="config: the feature of the token")
    parser.add_argument("--url", help="config: the address of a running `aop serve`, instead of a command")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the client disconnects; standard output belongs to the protocol."""
    with open_app(arguments) as app:
        if arguments.words:
            return _configure(app, arguments, terminal)
        return _serve(app, terminal)


def _serve(app: App, terminal: Terminal) -> int:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenInvalid(f"`{TOKEN_VARIABLE}` is not set; an agent needs a token.")
    tokens = app.tokens
    tokens.principal(token)
    from aop.mcpserver.stdio import serve_stdio

    serve_stdio(app.gateway, lambda: tokens.principal(token), terminal.say)
    return Exit.OK


def _configure(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    match arguments.words:
        case ["config", host] if host in HOSTS:
            pass
        case ["config", host]:
            raise InvalidCliArgs(
                f"AOP has no configuration for `{ascii(host[:80])[1:-1]}`.", hint=f"Use one of: {', '.join(HOSTS)}."
            )
        case _:
            raise InvalidCliArgs("`aop mcp` takes no words, or `config HOST`.", hint=f"Use one of: {', '.join(HOSTS)}.")
    program = shutil.which("aop")
    command = [program] if program else [sys.executable, "-m", "aop.cli.main"]
    address = ServerAddress(command=[*command, "mcp", "--repo", str(app.root)], url=arguments.url)
    text = HOSTS[host](address)
    scope = f" --feature {feature_id(arguments.feature)}" if arguments.feature else ""
    token = f"export {TOKEN_VARIABLE}=$(aop token {arguments.role or 'ROLE'}{scope})"
    if terminal.json:
        return terminal.result({"host": host, "file": FILES[host], "text": text, "token": token}, "")
    terminal.text(text.removesuffix("\n"))
    terminal.say(f"# Put this into `{FILES[host]}`, and start the host with the token in its environment:")
    terminal.say(f"#   {token}")
    return Exit.OK
