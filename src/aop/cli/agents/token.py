"""`aop token`: issue, list and revoke the tokens of agents."""

from __future__ import annotations

import argparse
import os
import re
from datetime import timedelta

import msgspec

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
from aop.core.clock import timestamp
from aop.core.errors import InvalidCliArgs
from aop.core.ids import feature_id
from aop.core.roles import Role
from aop.core.text.suggestions import did_you_mean
from aop.kernel.gateway.principals import refuse_agent
from aop.kernel.gateway.tokens import PROJECT_ROLES, TOKEN_ROLES, IssuedToken, Reach, TokenOrder, Tokens
from aop.wiring.build import App, Settings

READER = "reader"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LIFETIME = re.compile(r"([1-9][0-9]{0,7})([smhd])")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="ROLE", help=f"`list`, `revoke`, or a role: {', '.join(sorted(TOKEN_ROLES))}")
    parser.add_argument(
        "which", metavar="TOKEN", nargs="?", help="revoke: an id, or `-` to read the token from standard input"
    )
    parser.add_argument("--feature", metavar="ID", help="restrict the token to this feature")
    parser.add_argument("--project", metavar="P", help="restrict a forge role's token to this project")
    parser.add_argument("--build", metavar="B", help="restrict a forge role's token to this build and its contracts")
    parser.add_argument("--ttl", metavar="TIME", default="1h", help="how long it is valid: 30m, 8h, 7d (default: 1h)")
    platform_arguments(parser, f"the tokens of the platform's server: `list`, `revoke`, or `{READER}` for a program")
    repositories_argument(parser)
    parser.add_argument("--all-repositories", action="store_true", help="with --platform: all, also later ones")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print only the token on stdout."""
    if arguments.platform:
        return _run_platform(arguments, terminal)
    if arguments.repositories is not None or arguments.all_repositories:
        raise InvalidCliArgs("Only a token of a platform names repositories.", hint="Add `--platform`.")
    with open_app(arguments) as app:
        if arguments.what == "list":
            return _list(app.tokens, terminal)
        if arguments.what == "revoke":
            return _revoke(app.tokens, terminal, arguments.which, by=app.person.actor)
        return _issue(app, terminal, arguments)


def _run_platform(arguments: argparse.Namespace, terminal: Terminal) -> int:
    settings = Settings.from_env(os.environ)
    with platform_home(settings) as home:
        if arguments.what == "list":
            return _list(home.tokens, terminal)
        if arguments.what == "revoke":
            return _revoke(home.tokens, terminal, arguments.which, by=settings.actor)
        refuse_agents("aop token", settings)
        return _issue_reader(home, terminal, arguments)


def _issue_reader(home: PlatformHome, terminal: Terminal, arguments: argparse.Namespace) -> int:
    if arguments.what != READER:
        raise InvalidCliArgs(f"A platform has no tokens for `{arguments.what}`.", hint=f"It has them for: {READER}.")
    reach = named_reach(home, arguments.repositories)
    if (reach is None) is not arguments.all_repositories:
        raise InvalidCliArgs(
            "A reader's token names its repositories.", hint="Add `--repositories NAMES`, or `--all-repositories`."
        )
    life = _lifetime(arguments.ttl)
    issued = home.sessions.reader_token(by=home.settings.actor, reach=reach or Reach(everything=True), life=life)
    return terminal.result({"token": issued.text, **msgspec.to_builtins(issued.token)}, issued.text)


def _issue(app: App, terminal: Terminal, arguments: argparse.Namespace) -> int:
    refuse_agent("`aop token`", app.person)
    project_id, build_id = project_scope(app, arguments)
    order = TokenOrder(
        role=_role(arguments.what),
        feature_id=None if arguments.feature is None else feature_id(arguments.feature),
        project_id=project_id,
        build_id=build_id,
        life=_lifetime(arguments.ttl),
    )
    issued = app.tokens.issue(order, by=app.person.actor)
    if (order.feature_id, order.project_id) == (None, None) and order.role is not Role.ORCHESTRATOR:
        terminal.say(_warning(order.role))
    data = {"token": issued.text, **msgspec.to_builtins(issued.token)}
    return terminal.result(data, issued.text)


def project_scope(app: App, arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the project and build that the options name, looked up. Raises: UnknownForgeProject, UnknownForgeBuild."""
    if arguments.project is None and arguments.build is None:
        return None, None
    from aop.forge.broker.sessions import narrowed

    with app.record.read() as view:
        reach = narrowed(view, app.person, arguments.project, arguments.build)
    return reach.project, reach.build


def _warning(role: Role) -> str:
    if role in PROJECT_ROLES:
        return f"aop: this token lets a {role} read every project; `--project P` or `--build B` restricts it to one."
    return f"aop: this token lets a {role} work on every feature; `--feature ID` restricts it to one."


def _list(desk: Tokens, terminal: Terminal) -> int:
    tokens, now = desk.all(), timestamp(desk.clock.now())
    lines = [f"{token.token_id}  {token.actor:<24}  {_validity(token, now)}" for token in tokens]
    data = {"tokens": msgspec.to_builtins(tokens)}
    return terminal.result(data, "\n".join(lines), empty="No tokens yet.")


def _revoke(desk: Tokens, terminal: Terminal, which: str | None, *, by: str) -> int:
    if which is None:
        raise InvalidCliArgs("`aop token revoke` needs a token.", hint="List the ids with `aop token list`.")
    revoked = desk.revoke(terminal.read_all().strip() if which == "-" else which, by=by)
    return terminal.done(msgspec.to_builtins(revoked), f"Revoked the token `{revoked.token_id}`.")


def _validity(token: IssuedToken, now: str) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at}"
    return f"expired {token.expires_at}" if token.expires_at <= now else f"until {token.expires_at}"


def _role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError as error:
        raise InvalidCliArgs(
            f"There is no role `{word}`.{did_you_mean(word, TOKEN_ROLES)}",
            hint=f"Use one of: {', '.join(sorted(TOKEN_ROLES))}.",
        ) from error


def _lifetime(text: str) -> timedelta:
    match = _LIFETIME.fullmatch(text)
    if match is None:
        raise InvalidCliArgs(f"`{text}` is not a duration.", hint="Write a number and a unit: `30m`, `8h`, `7d`.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
