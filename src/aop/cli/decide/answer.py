"""`aop answer`: answer a question of the inbox, so that whoever asked goes on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.adapters.machine.supervisor_lease import holder_of
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import UnknownQuestion
from aop.kernel.features.opened_paths import YES
from aop.wiring.build import App, Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("question", metavar="ID", help="as `aop inbox` shows it, such as `q1`")
    parser.add_argument("text", metavar="TEXT", help="what you say; where the question has options, one of them")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Answer, and say who goes on."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    try:
        given = {
            "feature_id": _feature_of(app, arguments.question),
            "question_id": arguments.question,
            "answer": arguments.text,
        }
        answer = app.gateway.call(app.person, "inbox.answer", given)
    finally:
        app.close()
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    made = answer.data["prerequisite"]
    if made is not None and answer.data["answer"] == YES:
        terminal.say(f"`{made['feature_id']}` is a feature now; these wait for it: {', '.join(made['needed_by'])}.")
    if holder_of(app.root / ".aop" / "supervisor.lock") is None:
        terminal.say("Answered. No supervisor is running: go on with `aop resume`.")
    else:
        terminal.say("Answered.")
    return Exit.OK


def _feature_of(app: App, question_id: str) -> str:
    questions = app.gateway.call(app.person, "inbox.list", {"answered": True}).data["questions"]
    for question in questions:
        if question["question_id"] == question_id:
            return str(question["feature_id"])
    raise UnknownQuestion(question_id)
