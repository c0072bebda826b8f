"""`aop approve`: show what would be merged, ask, print a token for that one merge."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aop.cli.decide.review_text import behaviour_lines
from aop.cli.screens.styles import Painter
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import asking, call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible, visible_name
from aop.kernel.gateway.calls import Envelope, feature_named
from aop.kernel.merges.base_moves import conflict_before_merge
from aop.kernel.merges.checkout import check_checkout_follows
from aop.kernel.merges.merge import check_approvable
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web.pages.feature.feature_review import read_review
from aop.web.review_view import warnings_of
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--yes", action="store_true", help="approve without asking (for scripts that a person runs)")
    signing_key(parser)


def signing_key(parser: argparse.ArgumentParser) -> None:
    """Declare the key that an approval is signed with."""
    parser.add_argument(
        "--key", metavar="FILE", help="the SSH key to sign with, if the policy names signers (default: AOP_SIGNING_KEY)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, ask, approve."""
    question = f"Approve this tree of {arguments.feature} for one merge?"
    with open_app(arguments) as app:
        asked = ApprovalRequest(arguments.feature, question=None if arguments.yes else question, key=arguments.key)
        approved = ask_for_approval(app, terminal, asked)
    if approved is None:
        return terminal.done({"approved": False}, "Not approved. Nothing changed.", code=Exit.NOT_PROVEN)
    return terminal.answer(approved, lambda granted: _show_token(granted, terminal))


@dataclass(frozen=True)
class ApprovalRequest:
    """A feature to approve, and how."""

    feature: str
    question: str | None
    """None if the answer is known to be yes."""
    key: str | None
    """The file of the SSH key to sign with; None means the key that `AOP_SIGNING_KEY` names."""
    follow: bool = False
    """Whether a checkout of the base branch has to be able to follow the merge."""


def ask_for_approval(app: App, terminal: Terminal, asked: ApprovalRequest) -> Envelope | None:
    """Show a feature, ask unless the answer is known, and approve it; None if the person says no."""
    feature = asked.feature
    which = {"feature_id": feature}
    status = call_tool(app, "repo.status", which).data
    seen = {**which, "tree": status["tree"], "base": status["base_head"]}
    if _conflicts(app, feature):
        # There is nothing to ask: the tool refuses it with the conflict, and sends it back to a builder.
        return call_tool(app, "feature.approve", seen)
    _refuse_unready(app, feature, follow=asked.follow)
    stat = call_tool(app, "repo.diff", {**which, "options": {"stat": True}}).data
    _show(terminal, status, stat, call_tool(app, "evidence.latest", which).data)
    review = read_review(asking(app), feature)
    for warning in warnings_of(review.summary, review.bundle):
        terminal.say(f"Warning  {warning}")
    _show_behaviour(terminal, review.summary)
    if asked.question is not None and not terminal.confirm(asked.question):
        return None
    return call_tool(app, "feature.approve", {**seen, **_signed(app, seen, asked.key)})


def _signed(app: App, seen: Mapping[str, Any], key: str | None) -> dict[str, str]:
    """Return the signature of exactly the tree and base that were shown; nothing where the policy names no signers."""
    kernel, environ = app.gateway.kernel, app.settings.environ
    config, file = kernel.config(), key or environ.get("AOP_SIGNING_KEY")
    if not config.policy.approval.signers or not file:
        return {}
    # Few repositories have signers.
    from aop.adapters.machine.ssh_signatures import SshSignatures
    from aop.kernel.merges.approval_signatures import NAMESPACE, ApprovalStatement

    with kernel.record.read() as view:
        runs, _ = check_approvable(kernel, view, feature_named(view, seen["feature_id"]))
    statement = ApprovalStatement(
        **seen,
        gate_runs={mode: run.run_id for mode, run in runs.items()},
        config_hash=config.hash,
        signed_at=kernel.now(),
    )
    return {
        "signature": SshSignatures(NAMESPACE, environ).sign(statement.text(), file),
        "signed_at": statement.signed_at,
    }


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
        terminal.say(
            f"Gates    {mode}: {run['verdict']}{age}, profile {visible(run['profile'])},"
            f" sandbox {run['sandbox_level']}, log {run['log_path']}"
        )
        for step in run["steps"]:
            terminal.say(f"           {visible(step['name'])}: {step['outcome']}, {visible(' '.join(step['command']))}")
    if status["strays"]:
        terminal.say(f"In the worktree, but not part of the feature: {', '.join(map(visible_name, status['strays']))}")


def _show_behaviour(terminal: Terminal, summary: FeatureSummary) -> None:
    """Show the tests of the base that the feature changes, right above the question."""
    for line in behaviour_lines(summary.behaviour, Painter(colour=False)):
        terminal.say(line)
