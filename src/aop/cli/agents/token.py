"""`aop token`: hand out, list and revoke the tokens that agents come in with."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta

import msgspec

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.clock import timestamp
from aop.core.errors import InvalidCliArgs
from aop.core.ids import feature_id
from aop.core.roles import Role
from aop.kernel.gateway.tokens import TOKEN_ROLES, IssuedToken, TokenOrder
from aop.wiring.build import App

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LIFE = re.compile(r"([1-9][0-9]{0,7})([smhd])")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("what", metavar="ROLE", help=f"`list`, `revoke`, or a role: {', '.join(sorted(TOKEN_ROLES))}")
    parser.add_argument(
        "which", metavar="TOKEN", nargs="?", help="for `revoke`: an id, or a whole token on stdin as `-`"
    )
    parser.add_argument("--feature", metavar="ID", help="the only feature that the token opens")
    parser.add_argument(
        "--ttl", metavar="TIME", default="1h", help="how long it opens anything: 30m, 8h, 7d (default: 1h)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the token, and nothing else, on stdout."""
    with open_app(arguments) as app:
        if arguments.what == "list":
            return _list(app, terminal)
        if arguments.what == "revoke":
            return _revoke(app, terminal, arguments.which)
        return _issue(app, terminal, arguments)


def _issue(app: App, terminal: Terminal, arguments: argparse.Namespace) -> int:
    order = TokenOrder(
        role=_role(arguments.what),
        feature_id=None if arguments.feature is None else feature_id(arguments.feature),
        life=_life(arguments.ttl),
    )
    handed = app.tokens.issue(order, by=app.person.actor)
    if order.feature_id is None and order.role is not Role.ORCHESTRATOR:
        terminal.say(
            f"aop: this token opens every feature of the repository to a {order.role}; `--feature ID` opens one."
        )
    if terminal.json:
        terminal.object({"ok": True, "data": {"token": handed.text, **msgspec.to_builtins(handed.token)}})
    else:
        terminal.text(handed.text)
    return Exit.OK


def _list(app: App, terminal: Terminal) -> int:
    tokens, now = app.tokens.all(), timestamp(app.gateway.kernel.clock.now())
    if terminal.json:
        terminal.object({"ok": True, "data": {"tokens": msgspec.to_builtins(tokens)}})
        return Exit.OK
    for token in tokens:
        terminal.text(f"{token.token_id}  {token.actor:<24}  {_standing(token, now)}")
    return Exit.OK


def _revoke(app: App, terminal: Terminal, which: str | None) -> int:
    if which is None:
        raise InvalidCliArgs("`aop token revoke` needs a token.", hint="`aop token list` shows their ids.")
    revoked = app.tokens.revoke(terminal.read_all().strip() if which == "-" else which, by=app.person.actor)
    if terminal.json:
        terminal.object({"ok": True, "data": msgspec.to_builtins(revoked)})
    else:
        terminal.say(f"The token `{revoked.token_id}` opens nothing any more.")
    return Exit.OK


def _standing(token: IssuedToken, now: str) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at}"
    return f"expired {token.expires_at}" if token.expires_at <= now else f"until {token.expires_at}"


def _role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError as error:
        raise InvalidCliArgs(
            f"There is no role `{word}`.", hint=f"Take one of: {', '.join(sorted(TOKEN_ROLES))}."
        ) from error


def _life(text: str) -> timedelta:
    match = _LIFE.fullmatch(text)
    if match is None:
        raise InvalidCliArgs(f"`{text}` is no time.", hint="Write a number and a unit: `90s`, `30m`, `8h`, `7d`.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
