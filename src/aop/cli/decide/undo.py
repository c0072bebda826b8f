"""`aop undo`: shows the trees that a feature was, asks, and goes back to one of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", help="its id, as `aop status` shows it")
    parser.add_argument("--to", metavar="TREE", help="the number or the id of a tree (default: the one before)")
    parser.add_argument("--yes", action="store_true", help="go back without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, go back."""
    with open_app(arguments) as app:
        return _undo(app, arguments, terminal)


def _undo(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    listed = call_tool(app, "feature.trees", {"feature_id": arguments.feature})
    if terminal.json and not arguments.yes:
        terminal.object(listed.as_json())
        return Exit.NOT_PROVEN
    _show(listed.data["trees"], terminal)
    to = arguments.to or _one_before(listed.data["trees"])
    if not arguments.yes and not terminal.confirm(f"Go back to tree {to} of {arguments.feature}?"):
        terminal.say("Nothing changed.")
        return Exit.NOT_PROVEN
    wish = {"feature_id": arguments.feature, "expected_version": listed.data["version"], "to": to}
    return terminal.answer(call_tool(app, "feature.undo", wish), lambda undone: _show_undone(undone, terminal))


def _show_undone(undone: Mapping[str, Any], terminal: Terminal) -> None:
    before = f"refs/aop/undone/{undone['feature_id']}/{undone['before']}"
    terminal.say(f"{undone['feature_id']} is tree {undone['tree']} now, {undone['status']}.")
    terminal.say(f"The tree before is kept as {before}. Go on with: aop run")


def _one_before(trees: Sequence[Mapping[str, Any]]) -> str:
    current = next((row["number"] for row in trees if row["current"]), 0)
    if current == 0:
        raise InvalidCliArgs("There is no tree before this one.", hint="Name one of those listed with `--to`.")
    return str(current - 1)


def _show(trees: Sequence[Mapping[str, Any]], terminal: Terminal) -> None:
    for row in trees:
        now = "  <- now" if row["current"] else ""
        how = f"{row['event']} by {row['actor']} ({row['operation_id']}), {count(row['files'], 'file')}"
        terminal.say(f"{row['number']:>3}  {row['tree'][:12]}  {row['at']}  {how}{now}")
