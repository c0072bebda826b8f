"""`aop take`: show a person's edits in a worktree, ask, take them as a patch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="take the edits without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, take."""
    request = {"feature_id": arguments.feature}
    with open_app(arguments) as app:
        planned = call_tool(app, "repo.take_edits", request)
        if terminal.json and not arguments.yes:
            return terminal.answer(planned, lambda _data: None, code=Exit.NOT_PROVEN)
        terminal.say(planned.data["diff_stat"].rstrip("\n"))
        if not arguments.yes and not terminal.confirm(f"Take these edits as a patch of {arguments.feature}?"):
            terminal.say("Not taken. Nothing changed.")
            return Exit.NOT_PROVEN
        seen = {"dry_run": False, "tree": planned.data["tree"], "expected_version": planned.data["version"]}
        taken = call_tool(app, "repo.take_edits", {**request, **seen})
    return terminal.answer(taken, lambda edits: _show(edits, terminal))


def _show(taken: Mapping[str, Any], terminal: Terminal) -> None:
    for warning in taken["warnings"]:
        terminal.say(f"Warning: {warning}")
    name = taken["feature_id"]
    terminal.say(f"{name} has your edits as tree {taken['tree']}, {taken['status']}; its gates have to run again.")
    terminal.say("Continue with: aop resume")
