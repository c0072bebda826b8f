"""`aop delete`: shows what of a feature would be removed, asks, and removes it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", help="its id, as `aop status` shows it")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--worktree", action="store_true", help="the worktree too")
    parser.add_argument("--branch", action="store_true", help="the branch too (with --worktree)")
    parser.add_argument("--force", action="store_true", help="also where work would be lost that was never merged")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, remove."""
    with open_app(arguments) as app:
        return _delete(app, arguments, terminal)


def _delete(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    wish = {
        "feature_id": arguments.feature,
        "worktree": arguments.worktree,
        "branch": arguments.branch,
        "force": arguments.force,
    }
    shown = call_tool(app, "feature.delete", wish)
    if terminal.json and not arguments.yes:
        terminal.object(shown.as_json())
        return Exit.NOT_PROVEN
    _show(terminal, shown.data)
    if not arguments.yes and not terminal.confirm(f"Remove {arguments.feature}?"):
        terminal.say("Not removed; nothing changed.")
        return Exit.NOT_PROVEN
    seen = {"dry_run": False, "expected_version": shown.data["version"]}
    done = call_tool(app, "feature.delete", {**wish, **seen})
    return terminal.answer(done, lambda removed: _show_removed(removed["feature_id"], done.evidence, terminal))


def _show_removed(feature: str, evidence: Mapping[str, Any], terminal: Terminal) -> None:
    for place in evidence.get("set_aside", ()):
        terminal.say(f"Somebody had changed a file of AOP; it is in {place} now.")
    terminal.say(f"Removed {feature}. What happened to it: aop logs --feature {feature}")


def _show(terminal: Terminal, planned: Mapping[str, Any]) -> None:
    terminal.say(f"Feature   {planned['feature_id']}, {planned['status']}")
    if planned["unmerged"]:
        terminal.say("          It holds work that the base branch does not have.")
    terminal.say(f"Files     {len(planned['files'])} of AOP go, {len(planned['kept_files'])} stay")
    for path in planned["kept_files"]:
        terminal.say(f"          stays: {path}")
    terminal.say(f"Worktree  {planned['worktree_path'] or 'stays'}")
    terminal.say(f"Branch    {planned['branch'] or 'stays'}, at {planned['branch_head']}")
    if planned["locks"]:
        terminal.say(f"Locks     {', '.join(planned['locks'])} become free")
