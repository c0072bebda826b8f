"""Controls of a build: `aop forge pause`, `resume`, `cancel` and `interject`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.forge.action import Action
from aop.cli.forge.builds.audit import declare_build
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible


def _declare_pause(parser: argparse.ArgumentParser) -> None:
    declare_build(parser)
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for those who look at the build")


def pause(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Pause a build, and name the command that ends the pause."""
    with open_app(arguments) as app:
        request = {"build_id": arguments.build, "reason": arguments.reason}
        answer = call_tool(app, "forge.build_pause", request)

    def show(data: Mapping[str, Any]) -> None:
        if data["hold"] == "paused":
            said = "Pausing it after its current step." if data["changed"] else "It is already paused."
        else:
            said = f"It already waits: {visible(data['hold_reason'])}"
        terminal.say(f"{said} Continue with: aop forge resume {data['build_id']}")

    return terminal.answer(answer, show)


def resume(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Let a build go on."""
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.build_resume", {"build_id": arguments.build})

    def show(data: Mapping[str, Any]) -> None:
        said = "Resumed." if data["changed"] else "Nothing held it."
        terminal.say(f"{said} If no process works on it, continue with: aop forge build {data['project_id']}")

    return terminal.answer(answer, show)


def cancel(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Abandon a build, with a reason of its own if none is given; its branch stays."""
    with open_app(arguments) as app:
        reason = arguments.reason or f"Cancelled by {app.person.actor}."
        answer = call_tool(app, "forge.build_abandon", {"build_id": arguments.build, "reason": reason})

    def show(data: Mapping[str, Any]) -> None:
        terminal.say(f"Cancelled. Its commits stay on the branch {data['branch']}.")
        terminal.say(f"Begin another build with: aop forge build {data['project_id']}")

    return terminal.answer(answer, show)


def _declare_interject(parser: argparse.ArgumentParser) -> None:
    declare_build(parser)
    parser.add_argument("text", metavar="TEXT", help="what the model is told; `-` reads standard input")


def interject(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Tell the model of a build something."""
    text = terminal.read_all() if arguments.text == "-" else arguments.text
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.build_interject", {"build_id": arguments.build, "text": text})
    return terminal.answer(answer, lambda _data: terminal.say("Sent. The model is told before its next reply."))


ACTIONS: Mapping[str, Action] = {
    "pause": Action(_declare_pause, pause),
    "resume": Action(declare_build, resume),
    "cancel": Action(_declare_pause, cancel),
    "interject": Action(_declare_interject, interject),
}
