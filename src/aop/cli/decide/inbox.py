"""`aop inbox`: the questions and approvals that wait for a person."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--answered", action="store_true", help="list answered questions too")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the questions, oldest first."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "inbox.list", {"answered": arguments.answered})
    return terminal.result(answer.data, "\n".join(_lines(answer.data)), empty="The inbox is empty.")


def _lines(inbox: Mapping[str, Any]) -> Iterator[str]:
    for question in inbox["questions"]:
        yield f"{question['question_id']}  {question['feature_id']}  {_line(question['text'])}"
        if question["choices"]:
            yield f"    {question['gate']}: {' or '.join(question['choices'])}"
        if question["due_at"]:
            yield f"    until {question['due_at']}; then: {_line(question['default'] or 'the feature is blocked')}"
        if question["answer"] is not None:
            yield f"    {question['answered_by']}: {_line(question['answer'])}"
        if question["closed_because"]:
            yield f"    {question['closed_because']}"
    for approval in inbox["approvals"]:
        yield f"approval  {approval['feature_id']}  ready to merge: {approval['how']}"


def _line(text: str) -> str:
    """Return foreign text as one line, without characters that steer a terminal."""
    return visible(" ".join(text.split()))
