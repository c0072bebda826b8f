"""`aop rebase`: move a feature onto the base branch as it is now."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.roles import Role
from aop.core.text.conflicts import conflict_lines


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--resolve", action="store_true", help="hand a conflict to a builder, instead of refusing it")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Move the feature."""
    which = {"feature_id": arguments.feature}
    with open_app(arguments) as app:
        if not arguments.resolve:
            answer = call_tool(app, "repo.rebase_onto_main", which, role=Role.SYSTEM)
            return terminal.answer(answer, lambda moved: _show(moved, terminal))
        answer = call_tool(app, "repo.follow_base", which, role=Role.SYSTEM)
    return terminal.answer(answer, lambda followed: _show_followed(followed, terminal))


def _show(moved: Mapping[str, Any], terminal: Terminal) -> None:
    if not moved["moved"]:
        terminal.say(f"{moved['feature_id']} is already on the newest commit of the base branch.")
        return
    terminal.say(f"Moved {moved['feature_id']} to {moved['base_commit'][:12]}; its gates must run again.")
    terminal.say(f"It is {moved['status']}. Continue with: aop resume")


def _show_followed(followed: Mapping[str, Any], terminal: Terminal) -> None:
    conflict = followed["conflict"]
    if conflict is None:
        _show({**followed, "moved": followed["outcome"] == "moved"}, terminal)
        return
    terminal.say(conflict["message"])
    terminal.say("\n".join(conflict_lines(conflict["conflicts"])))
    kept = f"refs/aop/undone/{followed['feature_id']}/{conflict['tree']}"
    terminal.say(f"The feature is on the new base, {followed['status']}; its work before is kept as {kept}.")
    terminal.say("A builder makes it fit in the next run. Continue with: aop resume")
