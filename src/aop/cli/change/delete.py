"""`aop delete`: list what would be removed of a feature, ask, remove it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count
from aop.wiring.leftovers import drop_ended_sessions


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--worktree", action="store_true", help="remove the worktree too")
    parser.add_argument("--branch", action="store_true", help="remove the branch too (with --worktree)")
    parser.add_argument("--force", action="store_true", help="remove also work that was never merged")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, remove."""
    request = {
        "feature_id": arguments.feature,
        "worktree": arguments.worktree,
        "branch": arguments.branch,
        "force": arguments.force,
    }
    with open_app(arguments) as app:
        planned = call_tool(app, "feature.delete", request)
        if terminal.json and not arguments.yes:
            return terminal.answer(planned, lambda _planned: None, code=Exit.NOT_PROVEN)
        _show(terminal, planned.data)
        if not arguments.yes and not terminal.confirm(f"Remove {arguments.feature}?"):
            terminal.say("Not removed. Nothing changed.")
            return Exit.NOT_PROVEN
        seen = {"dry_run": False, "expected_version": planned.data["version"]}
        done = call_tool(app, "feature.delete", {**request, **seen})
        drop_ended_sessions(app)
    return terminal.answer(done, lambda removed: _show_removed(removed["feature_id"], done.evidence, terminal))


def _show_removed(feature: str, evidence: Mapping[str, Any], terminal: Terminal) -> None:
    for place in evidence.get("set_aside", ()):
        terminal.say(f"A file of AOP had been edited; the edited file is now {place}.")
    terminal.say(f"Removed {feature}. Its history: aop logs --feature {feature}")


def _show(terminal: Terminal, planned: Mapping[str, Any]) -> None:
    terminal.say(f"Feature   {planned['feature_id']}, {planned['status']}")
    if planned["unmerged"]:
        terminal.say("          It has work that the base branch does not have.")
    terminal.say(
        f"Files     {count(len(planned['files']), 'file')} of AOP to remove, {len(planned['kept_files'])} to keep"
    )
    for path in planned["kept_files"]:
        terminal.say(f"          kept: {path}")
    terminal.say(f"Worktree  {planned['worktree_path'] or 'kept'}")
    terminal.say(f"Branch    {planned['branch'] or 'kept'}, at {planned['branch_head']}")
    if planned["locks"]:
        terminal.say(f"Locks     {', '.join(planned['locks'])}, to be released")
