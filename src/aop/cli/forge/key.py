"""`aop forge key`: make, list and revoke keys for the HTTP interface."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.forge.action import Action
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.forge.projects.keys import SCOPES


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=["new", "list", "revoke"],
        metavar="new|list|revoke",
        help="`new` prints the key, which is shown once",
    )
    parser.add_argument("which", metavar="PREFIX", nargs="?", help="revoke: 12 characters of the key; `-` reads a key")
    parser.add_argument("--label", metavar="TEXT", default="", help="new: the machine or the program that will hold it")
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        action="append",
        help="new: a permission; several are possible (default: read)",
    )


def key(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Carry out one of the three."""
    run = {"new": _new, "list": _list, "revoke": _revoke}[arguments.what]
    return run(arguments, terminal)


def _new(arguments: argparse.Namespace, terminal: Terminal) -> int:
    request = {"label": arguments.label, "scopes": arguments.scope or ["read"]}
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.key_new", request)

    def show(data: Mapping[str, Any]) -> None:
        terminal.text(data["key"])
        terminal.say(f"Store it now: it is not shown again. Revoke it with: aop forge key revoke {data['prefix']}")

    return terminal.answer(answer, show)


def _list(arguments: argparse.Namespace, terminal: Terminal) -> int:
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.key_list", {})
    return terminal.answer(answer, lambda data: _show_list(data["keys"], terminal))


def _show_list(keys: list[Mapping[str, Any]], terminal: Terminal) -> None:
    if not keys:
        return terminal.say("No keys yet. Make one with: aop forge key new")
    rows = [
        (
            *(each["prefix"], ",".join(each["scopes"]), each["last_used"] or "never"),
            *(f"revoked {each['revoked_at']}" if each["revoked_at"] else "valid", each["label"]),
        )
        for each in keys
    ]
    return terminal.text("\n".join(lines_of(("Key", "Scopes", "Last used", "State", "Label"), rows, terminal)))


def _revoke(arguments: argparse.Namespace, terminal: Terminal) -> int:
    if arguments.which is None:
        raise InvalidCliArgs("`aop forge key revoke` needs a key.", hint="List the keys with `aop forge key list`.")
    which = terminal.read_all().strip() if arguments.which == "-" else arguments.which
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.key_revoke", {"prefix": which})
    return terminal.answer(answer, lambda data: terminal.say(f"Revoked the key `{data['prefix']}`."))


ACTIONS: Mapping[str, Action] = {"key": Action(_declare, key)}
