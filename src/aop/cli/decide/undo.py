"""`aop undo`: shows the trees that a feature was, asks, and goes back to one of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.wiring.build import App, Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", help="its id, as `aop status` shows it")
    parser.add_argument("--to", metavar="TREE", help="the number or the id of a tree (default: the one before)")
    parser.add_argument("--yes", action="store_true", help="go back without asking")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, go back."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    try:
        return _undo(app, arguments, terminal)
    finally:
        app.close()


def _undo(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    listed = app.gateway.call(app.person, "feature.trees", {"feature_id": arguments.feature})
    if listed.error is not None:
        return terminal.refuse(listed.error, listed.evidence)
    if terminal.json and not arguments.yes:
        terminal.object(listed.as_json())
        return Exit.NOT_PROVEN
    _show(listed.data["trees"], terminal)
    to = arguments.to or _one_before(listed.data["trees"])
    if not arguments.yes and not terminal.confirm(f"Go back to tree {to} of {arguments.feature}?"):
        terminal.say("Nothing changed.")
        return Exit.NOT_PROVEN
    wish = {"feature_id": arguments.feature, "expected_version": listed.data["version"], "to": to}
    done = app.gateway.call(app.person, "feature.undo", wish)
    if done.error is not None:
        return terminal.refuse(done.error, done.evidence)
    if terminal.json:
        terminal.object(done.as_json())
    else:
        before = f"refs/aop/undone/{arguments.feature}/{done.data['before']}"
        terminal.say(f"{arguments.feature} is tree {done.data['tree']} now, {done.data['status']}.")
        terminal.say(f"The tree before is kept as {before}. Go on with: aop run")
    return Exit.OK


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
