"""`aop approve`: show what would be merged, ask, print a token for that one merge."""

from __future__ import annotations

import argparse
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.kernel.merges.merge import check_approvable
from aop.kernel.record.documents.features import FeatureState
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="approve without asking (for scripts that a person runs)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, approve."""
    which = {"feature_id": arguments.feature}
    with open_app(arguments) as app:
        status = call_tool(app, "repo.status", which).data
        _refuse_unready(app, arguments.feature)
        stat = call_tool(app, "repo.diff", {**which, "options": {"stat": True}}).data
        _show(terminal, status, stat, call_tool(app, "evidence.latest", which).data)
        if not arguments.yes and not terminal.confirm(f"Approve this tree of {arguments.feature} for one merge?"):
            terminal.say("Not approved. Nothing changed.")
            return Exit.NOT_PROVEN
        seen = {"tree": status["tree"], "base": status["base_head"]}
        approved = call_tool(app, "feature.approve", {**which, **seen})
    return terminal.answer(approved, lambda granted: _show_token(granted, terminal))


def _show_token(granted: Any, terminal: Terminal) -> None:
    terminal.say(f"Approved. Merge it with: aop merge {granted['feature_id']} --token TOKEN")
    terminal.text(granted["token"])


def _refuse_unready(app: App, feature: str) -> None:
    """Refuse before asking what could not be approved; the approval itself checks again."""
    kernel = app.gateway.kernel
    with kernel.record.read() as view:
        state = view.get(FeatureState, feature)
        if state is not None:
            check_approvable(kernel, view, state)


def _show(terminal: Terminal, status: Any, stat: Any, evidence: Any) -> None:
    terminal.say(f"Feature  {status['feature_id']} on branch {status['branch']}")
    terminal.say(f"Tree     {status['tree']}")
    terminal.say(f"Onto     {status['base_branch']} at {status['base_head']}\n")
    terminal.say(stat["text"].rstrip())
    terminal.say("")
    for mode, run in evidence["by_mode"].items():
        age = "" if run["current"] else " (of an older tree, no longer valid)"
        terminal.say(f"Gates    {mode}: {run['verdict']}{age}, sandbox {run['sandbox_level']}, log {run['log_path']}")
    if status["strays"]:
        terminal.say(f"In the worktree, but not part of the feature: {', '.join(status['strays'])}")
