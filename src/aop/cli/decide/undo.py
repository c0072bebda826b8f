"""`aop undo`: list a feature's trees, ask, return to an earlier one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--to", metavar="TREE", help="the number or the id of a tree (default: the previous one)")
    parser.add_argument("--yes", action="store_true", help="return without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, ask, return."""
    with open_app(arguments) as app:
        listed = call_tool(app, "feature.trees", {"feature_id": arguments.feature})
        if terminal.json and not arguments.yes:
            terminal.object(listed.as_json())
            return Exit.NOT_PROVEN
        _show(listed.data["trees"], terminal)
        to = arguments.to or _previous_tree(listed.data["trees"])
        if not arguments.yes and not terminal.confirm(f"Return {arguments.feature} to tree {to}?"):
            terminal.say("Nothing changed.")
            return Exit.NOT_PROVEN
        request = {"feature_id": arguments.feature, "expected_version": listed.data["version"], "to": to}
        answer = call_tool(app, "feature.undo", request)
    return terminal.answer(answer, lambda undone: _show_undone(undone, terminal))


def _show_undone(undone: Mapping[str, Any], terminal: Terminal) -> None:
    before = f"refs/aop/undone/{undone['feature_id']}/{undone['before']}"
    terminal.say(f"{undone['feature_id']} is now at tree {undone['tree']}, {undone['status']}.")
    terminal.say(f"The previous tree is kept as {before}. Continue with: aop run")


def _previous_tree(trees: Sequence[Mapping[str, Any]]) -> str:
    current = next((row["number"] for row in trees if row["current"]), 0)
    if current == 0:
        raise InvalidCliArgs("The feature has no earlier tree.", hint="Name a listed tree with `--to`.")
    return str(current - 1)


def _show(trees: Sequence[Mapping[str, Any]], terminal: Terminal) -> None:
    for row in trees:
        now = "  <- now" if row["current"] else ""
        how = f"{row['event']} by {row['actor']} ({row['operation_id']}), {count(row['files'], 'file')}"
        terminal.say(f"{row['number']:>3}  {row['tree'][:12]}  {row['at']}  {how}{now}")
