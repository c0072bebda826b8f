"""`aop approve`: show what would be merged, ask, print a token for that one merge."""

from __future__ import annotations

import argparse
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible_name
from aop.kernel.gateway.calls import Envelope
from aop.kernel.merges.base_moves import conflict_before_merge
from aop.kernel.merges.checkout import check_checkout_follows
from aop.kernel.merges.merge import check_approvable
from aop.kernel.record.documents.features import FeatureState
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="approve without asking (for scripts that a person runs)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, approve."""
    question = f"Approve this tree of {arguments.feature} for one merge?"
    with open_app(arguments) as app:
        approved = ask_for_approval(app, terminal, arguments.feature, question=None if arguments.yes else question)
    if approved is None:
        return terminal.done({"approved": False}, "Not approved. Nothing changed.", code=Exit.NOT_PROVEN)
    return terminal.answer(approved, lambda granted: _show_token(granted, terminal))


def ask_for_approval(
    app: App, terminal: Terminal, feature: str, *, question: str | None, follow: bool = False
) -> Envelope | None:
    """Show a feature, ask unless the answer is known, and approve it; None if the person says no."""
    which = {"feature_id": feature}
    status = call_tool(app, "repo.status", which).data
    seen = {**which, "tree": status["tree"], "base": status["base_head"]}
    if _conflicts(app, feature):
        # There is nothing to ask: the tool refuses it with the conflict, and sends it back to a builder.
        return call_tool(app, "feature.approve", seen)
    _refuse_unready(app, feature, follow=follow)
    stat = call_tool(app, "repo.diff", {**which, "options": {"stat": True}}).data
    _show(terminal, status, stat, call_tool(app, "evidence.latest", which).data)
    if question is not None and not terminal.confirm(question):
        return None
    return call_tool(app, "feature.approve", seen)


def _show_token(granted: Any, terminal: Terminal) -> None:
    terminal.say(f"Approved. Merge it with: aop merge {granted['feature_id']} --token TOKEN")
    terminal.text(granted["token"])


def _conflicts(app: App, feature: str) -> bool:
    kernel = app.gateway.kernel
    with kernel.record.read() as view:
        state = view.get(FeatureState, feature)
    return state is not None and conflict_before_merge(kernel, state) is not None


def _refuse_unready(app: App, feature: str, *, follow: bool) -> None:
    """Refuse before asking what could not be approved or merged; approval and merge check again."""
    kernel = app.gateway.kernel
    with kernel.record.read() as view:
        state = view.get(FeatureState, feature)
        if state is not None:
            check_approvable(kernel, view, state)
    if state is not None and follow:
        check_checkout_follows(kernel, state)


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
        terminal.say(f"In the worktree, but not part of the feature: {', '.join(map(visible_name, status['strays']))}")
