"""Repository: the managed repository that a command works on, and its tools."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from aop.cli.shell.terminal import CallRefused
from aop.core.errors import Json
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App, Settings, build


def open_app(arguments: argparse.Namespace, *, to_read: bool = False) -> App:
    """Open the repository that `--repo` names; close it with `with`."""
    return build(Path(arguments.repo), Settings.from_env(os.environ), to_read=to_read)


def call_tool(app: App, tool: str, arguments: Json, *, report: Callable[[str], None] = lambda _line: None) -> Envelope:
    """Call a tool as the person at the terminal. Raises: CallRefused."""
    answer = app.gateway.call(app.person, tool, arguments, report=report)
    if answer.error is not None:
        raise CallRefused(answer.error, answer.evidence)
    return answer
