"""`aop merge`: merge an approved feature into the base branch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.followers import send_back_conflicts
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("--token", metavar="TOKEN", help="the token that `aop approve` printed")
    parser.add_argument(
        "--strategy", default="merge_commit", metavar="S", help="merge_commit (default), squash or rebase"
    )
    parser.add_argument("--message", default="", metavar="M", help="the commit message")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Merge the feature."""
    payload: dict[str, Json] = {
        "feature_id": arguments.feature,
        "merge_strategy": arguments.strategy,
        "commit_message": arguments.message,
        "user_approval_token": arguments.token,
    }
    with open_app(arguments) as app:
        answer = call_tool(app, "feature.ready_to_merge", payload, report=terminal.say)
        conflicts = send_back_conflicts(app)
    for line in conflicts:
        terminal.say(line)
    return terminal.answer(answer, lambda merged: _show(merged, terminal))


def _show(merged: Mapping[str, Any], terminal: Terminal) -> None:
    terminal.say(f"Merged {merged['feature_id']} into {merged['base_branch']} ({merged['strategy']}).")
    if merged["notice"]:
        terminal.say(merged["notice"])
    terminal.text(merged["merge_commit"])
