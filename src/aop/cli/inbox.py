"""`aop inbox`: what only a person can answer."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.wiring import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("--answered", action="store_true", help="list those that were answered, too")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the questions, oldest first."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    answer = app.gateway.call(app.person, "inbox.list", {"answered": arguments.answered})
    app.close()
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    for question in answer.data["questions"]:
        terminal.text(f"{question['question_id']}  {question['feature_id']}  {question['text']}")
        if question["answer"] is not None:
            terminal.text(f"    {question['answered_by']}: {question['answer']}")
    if not answer.data["questions"]:
        terminal.say("Nobody is asked anything.")
    return Exit.OK
