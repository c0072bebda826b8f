"""`aop comment`: comment on a feature; drafts are edited, deleted, and then sent."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.core.text.visible import deception_in
from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.web.comment_view import subject_of_comment


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the comment")
    parser.add_argument("--file", metavar="PATH", help="a file that it is about")
    parser.add_argument("--lines", metavar="A-B", help="lines of that file, which are quoted to the agent")
    parser.add_argument("--old", action="store_true", help="file and lines are those of the base")
    parser.add_argument("--plan", metavar="CLAUSE", help="a clause of the plan: summary, criterion-2, risk-1 or file-3")
    parser.add_argument("--edit", metavar="N", type=int, help="replace the text of the draft N")
    parser.add_argument("--delete", metavar="N", type=int, help="delete the draft N")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Store, edit or delete a draft."""
    tool, said = _call_of(arguments)
    with open_app(arguments) as app:
        answer = call_tool(app, tool, {"feature_id": arguments.feature, **said})
    return terminal.answer(answer, lambda data: _show(data, tool, terminal))


def _call_of(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the tool that the options choose, and its arguments. Raises: InvalidCliArgs."""
    place = {"file": arguments.file, "lines": arguments.lines, "clause": arguments.plan}
    about = {name: value for name, value in place.items() if value is not None}
    about |= {"side": "old"} if arguments.old else {}
    _refuse_mixture(arguments, about)
    if arguments.delete is not None:
        return "feature.comment_delete", {"number": arguments.delete}
    if arguments.text is None:
        raise InvalidCliArgs("The text of the comment is missing.", hint="Write it in quotes after the feature.")
    if arguments.edit is not None:
        return "feature.comment_edit", {"number": arguments.edit, "text": arguments.text}
    return "feature.comment", {"text": arguments.text, **about}


def _refuse_mixture(arguments: argparse.Namespace, about: Mapping[str, Any]) -> None:
    to_edit, to_delete = arguments.edit is not None, arguments.delete is not None
    if (to_delete and (to_edit or arguments.text is not None)) or ((to_edit or to_delete) and about):
        raise InvalidCliArgs("A draft keeps its place: `--edit N TEXT` and `--delete N` take no other option.")


def _show(stored: Mapping[str, Any], tool: str, terminal: Terminal) -> None:
    comment, name = msgspec.convert(stored["comment"], ChangeRequest), stored["feature_id"]
    if tool == "feature.comment_delete":
        terminal.say(f"Deleted the draft {comment.number}. {count(stored['drafts'], 'draft')} left.")
        return
    deception = deception_in((number, line) for number, line in enumerate(comment.text.split("\n"), 1))
    if deception:
        terminal.say(f"Warning: the text has {deception}.")
    terminal.say(f"Draft {comment.number} of a comment on {subject_of_comment(comment)}.")
    terminal.say(f"{count(stored['drafts'], 'draft')} of yours. Send with: aop request-changes {name}")
