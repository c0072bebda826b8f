"""`aop mcp`: serve one agent over standard streams, or configure a host."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial

from aop.cli.agents.mcp_hosts import FILES, HOSTS, TOKEN_VARIABLE, ServerAddress
from aop.cli.agents.roles import token_role
from aop.cli.agents.token import project_scope
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import ask_models_argument, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, TokenInvalid
from aop.core.ids import feature_id
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import LONGEST_LIFE, TokenOrder
from aop.wiring.build import App, Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "words", metavar="config HOST", nargs="*", help=f"print the configuration for a host: {', '.join(HOSTS)}"
    )
    parser.add_argument(
        "--role",
        type=token_role,
        metavar="ROLE",
        help="config: the role of the token; with --project: the agent's role",
    )
    parser.add_argument("--feature", metavar="ID", help="config: the feature of the token")
    parser.add_argument(
        "--project", metavar="P", help="read this project only; without a token one is made for the role"
    )
    parser.add_argument("--build", metavar="B", help="read this build and its contracts only")
    parser.add_argument(
        "--forge", metavar="URL", help="read the contracts of another AOP, with the key in FORGEGUARD_API_KEY"
    )
    parser.add_argument("--url", help="config: the address of a running `aop serve`, instead of a command")
    ask_models_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the client disconnects; standard output belongs to the protocol."""
    if arguments.forge is not None:
        return _serve_remote(arguments, terminal)
    with open_app(arguments, asks_models=arguments.ask_models) as app:
        if arguments.words:
            return _configure(app, arguments, terminal)
        if arguments.project is not None or arguments.build is not None:
            return _serve_project(app, arguments, terminal)
        return _serve(app, terminal, app.tokens.principal, _given_token())


def _given_token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenInvalid(f"`{TOKEN_VARIABLE}` is not set; an agent needs a token.")
    return token


def _serve(app: App, terminal: Terminal, identify: Callable[[str], Principal], token: str) -> int:
    identify(token)
    from aop.mcpserver.stdio import serve_stdio

    serve_stdio(app.gateway, lambda: identify(token), terminal.say)
    return Exit.OK


def _serve_project(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one project or build: with the given token, which it narrows, or with one that ends with this server."""
    if os.environ.get(TOKEN_VARIABLE, "").strip():
        return _serve(app, terminal, partial(_narrowed_caller, app, arguments), _given_token())
    project_id, build_id = project_scope(app, arguments)
    order = TokenOrder(role=arguments.role or Role.SCOUT, project_id=project_id, build_id=build_id, life=LONGEST_LIFE)
    issued = app.tokens.issue(order, by=app.person.actor)
    try:
        return _serve(app, terminal, app.tokens.principal, issued.text)
    finally:
        app.tokens.revoke(issued.token.token_id, by=app.person.actor)


def _narrowed_caller(app: App, arguments: argparse.Namespace, token: str) -> Principal:
    from aop.forge.broker.sessions import narrowed

    principal = app.tokens.principal(token)
    if arguments.role not in (None, principal.role):
        raise InvalidCliArgs(
            f"The token in `{TOKEN_VARIABLE}` is for the role `{principal.role}`.", hint="Leave out `--role`."
        )
    with app.record.read() as view:
        return narrowed(view, principal, arguments.project, arguments.build)


def _serve_remote(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve the read tools of another AOP; whose projects they are, that AOP decides by the key."""
    from aop.mcpserver.stdio import serve_stdio
    from aop.wiring.forge.remote_forge import remote_gateway

    if arguments.words:
        raise InvalidCliArgs("`--forge` takes no words.", hint="Leave out `config HOST`.")
    role = arguments.role or Role.SCOUT
    caller = Principal(role=role, actor=f"{role}:*", project=arguments.project, build=arguments.build)
    with remote_gateway(Settings.from_env(os.environ), arguments.forge, caller) as gateway:
        serve_stdio(gateway, lambda: caller, terminal.say)
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
    project_id, build_id = project_scope(app, arguments)
    reach = ["--build", build_id] if build_id else ["--project", project_id] if project_id else []
    allowed = ["--ask-models"] if arguments.ask_models else []
    # A host that opens this workspace reads this project, with no call to say so (FORGE-114).
    address = ServerAddress(command=[*command, "mcp", "--repo", str(app.root), *reach, *allowed], url=arguments.url)
    text = HOSTS[host](address)
    words = [*(("--feature", feature_id(arguments.feature)) if arguments.feature else ()), *reach]
    token = f"export {TOKEN_VARIABLE}=$({' '.join(['aop token', arguments.role or 'ROLE', *words])})"
    if terminal.json:
        return terminal.result({"host": host, "file": FILES[host], "text": text, "token": token}, "")
    terminal.text(text.removesuffix("\n"))
    terminal.say(f"# Put this into `{FILES[host]}`, and start the host with the token in its environment:")
    terminal.say(f"#   {token}")
    return Exit.OK
