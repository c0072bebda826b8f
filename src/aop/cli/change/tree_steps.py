"""Tree steps: the dialogue of `aop undo` and `aop redo`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count


def go_to_tree(
    arguments: argparse.Namespace, terminal: Terminal, way: Literal["undo", "redo"], *, to: str | None = None
) -> int:
    """List the trees of a feature, ask, and go back, forward, or to the tree that `to` names."""
    with open_app(arguments) as app:
        listed = call_tool(app, "feature.trees", {"feature_id": arguments.feature})
        if terminal.json and not arguments.yes:
            return terminal.answer(listed, lambda _data: None, code=Exit.NOT_PROVEN)
        _show(listed.data["trees"], terminal)
        step = listed.data["previous" if way == "undo" else "next"]
        goal = to or (step or "")[:12]
        # Without a tree to go to there is nothing to ask, and the tool says so.
        if goal and not arguments.yes and not terminal.confirm(f"Move {arguments.feature} to tree {goal}?"):
            terminal.say("Nothing changed.")
            return Exit.NOT_PROVEN
        request = {"feature_id": arguments.feature, "expected_version": listed.data["version"]}
        answer = call_tool(app, f"feature.{way}", {**request, "to": to} if to else request)
    return terminal.answer(answer, lambda moved: _show_moved(moved, terminal))


def _show_moved(moved: Mapping[str, Any], terminal: Terminal) -> None:
    name = moved["feature_id"]
    terminal.say(f"{name} is now at tree {moved['tree']}, {moved['status']}, and paused.")
    terminal.say(f"The tree before is kept as refs/aop/undone/{name}/{moved['before']}")
    terminal.say(f"Continue with: aop resume {name}")


def _show(trees: Sequence[Mapping[str, Any]], terminal: Terminal) -> None:
    for row in trees:
        now = "  <- now" if row["current"] else ""
        how = f"{row['event']} by {row['actor']} ({row['operation_id']}), {count(row['files'], 'file')}"
        terminal.say(f"{row['number']:>3}  {row['tree'][:12]}  {row['at']}  {how}{now}")
