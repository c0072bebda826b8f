"""`aop merge`: show, ask, approve, merge, and bring the checkout along."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec

from aop.cli.decide.approve import ApprovalRequest, ask_for_approval, signing_key
from aop.cli.shell.exits import Exit
from aop.cli.shell.followers import send_back_conflicts
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.kernel.config.policy import CheckoutRule, MergePolicy
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App
from aop.wiring.leftovers import leftovers_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="approve without asking (for scripts that a person runs)")
    signing_key(parser)
    parser.add_argument("--token", metavar="TOKEN", help="the token that `aop approve` printed, instead of asking")
    parser.add_argument(
        "--strategy", default="merge_commit", metavar="S", help="merge_commit (default), squash or rebase"
    )
    parser.add_argument("--message", default="", metavar="M", help="the commit message")
    parser.add_argument("--delete", action="store_true", help="then remove the feature's worktree and branch")
    parser.add_argument(
        "--leave-checkout", action="store_true", help="leave a checkout of the base branch as it is, for `aop sync`"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Merge the feature."""
    with open_app(arguments) as app:
        rules = app.gateway.kernel.config().policy.merge_policy
        follow = _follows(rules, arguments, terminal)
        if app.hub is not None:
            # Another machine may have led it, and has its worktree.
            call_tool(app, "repo.ensure_worktree", {"feature_id": arguments.feature})
        token = arguments.token
        if token is None and rules.require_user_approval and (arguments.yes or terminal.is_interactive):
            question = None if arguments.yes else f"Approve this tree of {arguments.feature} and merge it?"
            asked = ApprovalRequest(arguments.feature, question=question, key=arguments.key, follow=follow)
            approved = ask_for_approval(app, terminal, asked)
            if approved is None:
                return terminal.done({"merged": False}, "Not merged. Nothing changed.", code=Exit.NOT_PROVEN)
            token = approved.data["token"]
        answer = call_tool(
            app, "feature.ready_to_merge", _payload(arguments, token, follow=follow), report=terminal.say
        )
        if follow:
            answer = _with_checkout(app, answer)
        if arguments.delete:
            answer = _with_removals(app, answer)
        conflicts = send_back_conflicts(app)
    code = terminal.answer(answer, lambda merged: _show(merged, terminal))
    for line in conflicts:
        terminal.say(line)
    return code


def _follows(rules: MergePolicy, arguments: argparse.Namespace, terminal: Terminal) -> bool:
    """Tell whether the checkout is brought along."""
    if arguments.leave_checkout or rules.checkout is CheckoutRule.LEAVE:
        return False
    if rules.checkout is CheckoutRule.ASK and not arguments.yes:
        return terminal.confirm("Bring a checkout of the base branch along?")
    return True


def _payload(arguments: argparse.Namespace, token: str | None, *, follow: bool) -> dict[str, Json]:
    return {
        "feature_id": arguments.feature,
        "merge_strategy": arguments.strategy,
        "commit_message": arguments.message,
        "user_approval_token": token,
        "checkout": "follow" if follow else "leave",
    }


def _with_checkout(app: App, merged: Envelope) -> Envelope:
    """Update the checkout after the merge; a refusal of that is a notice, because the merge is done."""
    try:
        synced = call_tool(app, "repo.sync", {}).data
    except CallRefused as refused:
        notice = f"The checkout was not updated: {refused.error['message']} Repeat with: aop sync"
        return msgspec.structs.replace(merged, data={**merged.data, "notice": notice})
    notice = "" if synced["updated"] else merged.data["notice"]
    return msgspec.structs.replace(merged, data={**merged.data, "notice": notice, "checkout": synced})


def _with_removals(app: App, merged: Envelope) -> Envelope:
    """Remove worktree and branch as `aop gc` does; work that is in neither tree nor branch is saved first."""
    leftovers = leftovers_of(app)
    removed = [leftovers.remove(each) for each in list(leftovers.of_merged(FeatureId(merged.data["feature_id"])))]
    return msgspec.structs.replace(merged, data={**merged.data, "removed": msgspec.to_builtins(removed)})


def _show(merged: Mapping[str, Any], terminal: Terminal) -> None:
    terminal.say(f"Merged {merged['feature_id']} into {merged['base_branch']} ({merged['strategy']}).")
    if merged.get("checkout", {}).get("updated"):
        terminal.say(merged["checkout"]["message"])
    for gone in merged.get("removed", ()):
        terminal.say(f"{gone['leftover']['kind']} {gone['leftover']['name']}: {gone['problem'] or 'removed'}")
        if gone["rescued"]:
            terminal.say(f"Its unsaved work is kept as {gone['rescued']}.")
    if merged["notice"]:
        terminal.say(merged["notice"])
    terminal.text(merged["merge_commit"])
