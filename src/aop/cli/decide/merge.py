"""`aop merge`: merges an approved feature, and says what is now where."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("feature", metavar="FEATURE", help="its id, as `aop status` shows it")
    parser.add_argument("--token", metavar="TOKEN", help="what `aop approve` printed")
    parser.add_argument("--strategy", default="merge_commit", metavar="S", help="merge_commit, squash or rebase")
    parser.add_argument("--message", default="", metavar="M", help="the commit message")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Merge the feature."""
    payload: dict[str, Json] = {
        "feature_id": arguments.feature,
        "merge_strategy": arguments.strategy,
        "commit_message": arguments.message,
        "user_approval_token": arguments.token,
    }
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    answer = app.gateway.call(app.person, "feature.ready_to_merge", payload, report=terminal.say)
    app.close()
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    merged = answer.data
    terminal.say(f"Merged {merged['feature_id']} into {merged['base_branch']} ({merged['strategy']}).")
    if merged["notice"]:
        terminal.say(merged["notice"])
    terminal.text(merged["merge_commit"])
    return Exit.OK
