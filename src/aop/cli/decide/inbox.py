"""`aop inbox`: what only a person can answer."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("--answered", action="store_true", help="list those that were answered, too")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the questions, oldest first."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ), to_read=True)
    answer = app.gateway.call(app.person, "inbox.list", {"answered": arguments.answered})
    app.close()
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    lines = list(_lines(answer.data))
    for line in lines or ["Nobody is asked anything."]:
        (terminal.text if lines else terminal.say)(line)
    return Exit.OK


def _lines(inbox: Mapping[str, Any]) -> Iterator[str]:
    for question in inbox["questions"]:
        yield f"{question['question_id']}  {question['feature_id']}  {_line(question['text'])}"
        if question["choices"]:
            yield f"    {question['gate']}: {' or '.join(question['choices'])}"
        if question["due_at"]:
            yield f"    until {question['due_at']}; then {_line(question['default'] or 'its feature is blocked')}"
        if question["answer"] is not None:
            yield f"    {question['answered_by']}: {_line(question['answer'])}"
        if question["closed_because"]:
            yield f"    {question['closed_because']}"
    for approval in inbox["approvals"]:
        yield f"approval  {approval['feature_id']}  ready to merge: {approval['how']}"


def _line(text: str) -> str:
    """Return what a stranger wrote as one line that steers no terminal."""
    return visible(" ".join(text.split()))
