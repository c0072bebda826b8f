"""`aop answer`: answer a question from the inbox."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import UnknownQuestion
from aop.kernel.features.opened_paths import YES
from aop.wiring.build import App
from aop.wiring.supervisor_lease import lease_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("question", metavar="ID", help="the question, as `aop inbox` lists it: `q1`")
    parser.add_argument("text", metavar="TEXT", help="your answer; one of the choices, if the question has choices")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Answer, and say what happens next."""
    with open_app(arguments) as app:
        which = {"feature_id": _feature_of(app, arguments.question), "question_id": arguments.question}
        answer = call_tool(app, "inbox.answer", {**which, "answer": arguments.text})
        is_led = lease_holder(app.root, app.record) is not None
    return terminal.answer(answer, lambda data: _show(data, terminal, is_led=is_led))


def _show(answered: Mapping[str, Any], terminal: Terminal, *, is_led: bool) -> None:
    made = answered["prerequisite"]
    if made is not None and answered["answer"] == YES:
        terminal.say(f"Made the feature `{made['feature_id']}`; waiting for it: {', '.join(made['needed_by'])}")
    if answered["detail"].get("clarification"):
        terminal.say(f"Answered. The build `{answered['feature_id']}` goes on with it.")
    elif not is_led:
        terminal.say("Answered. No run is active. Continue with: aop resume")
    else:
        terminal.say("Answered.")


def _feature_of(app: App, question_id: str) -> str:
    questions = call_tool(app, "inbox.list", {"answered": True}).data["questions"]
    for question in questions:
        if question["question_id"] == question_id:
            return str(question["feature_id"])
    raise UnknownQuestion(question_id, (question["question_id"] for question in questions))
