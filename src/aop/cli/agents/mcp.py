"""`aop mcp`: the tools of one role, served to one agent over standard input and output; or how to tell an agent so."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from aop.cli.agents.mcp_hosts import FILES, HOSTS, TOKEN_VARIABLE, Reached, configuration
from aop.cli.agents.roles import role
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, TokenInvalid
from aop.core.ids import feature_id
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument(
        "words", metavar="config HOST", nargs="*", help=f"print the configuration of {', '.join(HOSTS)}"
    )
    parser.add_argument("--role", type=role, metavar="ROLE", help="with `config`: whose token to ask for")
    parser.add_argument("--feature", metavar="ID", help="with `config`: for which feature")
    parser.add_argument(
        "--url", help="with `config`: the address of a running `aop serve`, instead of a command to start"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the client is gone; standard output belongs to the protocol."""
    with open_app(arguments) as app:
        if arguments.words:
            return _configure(app, arguments, terminal)
        return _serve(app, terminal)


def _serve(app: App, terminal: Terminal) -> int:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenInvalid(f"`{TOKEN_VARIABLE}` is not set, and an agent without a token may do nothing.")
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
                f"AOP knows no configuration of `{ascii(host[:80])[1:-1]}`.", hint=f"Take one of: {', '.join(HOSTS)}."
            )
        case _:
            raise InvalidCliArgs("`aop mcp` takes nothing, or `config HOST`.", hint=f"Take one of: {', '.join(HOSTS)}.")
    program = shutil.which("aop")
    started = [program] if program else [sys.executable, "-m", "aop.cli.main"]
    reached = Reached(command=[*started, "mcp", "--repo", str(app.root)], url=arguments.url)
    text = configuration(host, reached)
    scope = f" --feature {feature_id(arguments.feature)}" if arguments.feature else ""
    token = f"export {TOKEN_VARIABLE}=$(aop token {arguments.role or 'ROLE'}{scope})"
    if terminal.json:
        terminal.object({"ok": True, "data": {"host": host, "file": FILES[host], "text": text, "token": token}})
        return Exit.OK
    terminal.text(text.removesuffix("\n"))
    terminal.say(f"# Put this into `{FILES[host]}`, and start the host where the token is:")
    terminal.say(f"#   {token}")
    return Exit.OK
