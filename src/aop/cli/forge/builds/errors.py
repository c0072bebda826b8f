"""`aop forge errors`: the errors of a build, and dismissing one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.forge.action import Action
from aop.cli.forge.builds.audit import declare_build
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count

TITLES = ("ID", "Times", "Phase", "State", "File", "Message")


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_build(parser)
    parser.add_argument("--dismiss", metavar="ID", help="dismiss this error; one that ended the build cannot be")


def errors(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the errors, or dismiss one."""
    which = {"build_id": arguments.build}
    if arguments.dismiss is not None:
        with open_app(arguments) as app:
            answer = call_tool(app, "forge.error_dismiss", {**which, "error_id": arguments.dismiss})
        return terminal.answer(answer, lambda data: terminal.say(f"Dismissed the error `{data['error_id']}`."))
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.errors_list", which)
    return terminal.answer(answer, lambda data: _show(data, terminal))


def _show(data: Mapping[str, Any], terminal: Terminal) -> None:
    if not data["errors"]:
        return terminal.say(f"No errors were seen in {data['build_id']}.")
    rows = [
        (
            *(each["error_id"], str(each["occurrence_count"]), "-" if each["phase"] is None else str(each["phase"])),
            *(_state(each), each["file_path"] or "-", " ".join(each["message"].split())),
        )
        for each in data["errors"]
    ]
    resolved = len(rows) - data["unresolved"]
    lines = [f"{count(data['unresolved'], 'unresolved error')}, {resolved} resolved", ""]
    return terminal.text("\n".join([*lines, *lines_of(TITLES, rows, terminal)]))


def _state(error: Mapping[str, Any]) -> str:
    return str(error["resolution_method"] if error["resolved"] else error["severity"])


ACTIONS: Mapping[str, Action] = {"errors": Action(_declare, errors)}
