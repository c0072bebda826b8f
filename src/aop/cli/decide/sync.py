"""`aop sync`: bring the checkout of the base branch up to the branch."""

from __future__ import annotations

import argparse

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Declare no further arguments."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Update the checkout."""
    with open_app(arguments) as app:
        answer = call_tool(app, "repo.sync", {})
    return terminal.answer(answer, lambda synced: terminal.say(synced["message"]))
