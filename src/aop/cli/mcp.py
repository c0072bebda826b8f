"""`aop mcp`: the tools of one role, served to one agent over standard input and output."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.core.errors import TokenInvalid
from aop.wiring import Settings, build

TOKEN_VARIABLE = "AOP_TOKEN"


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the client is gone; standard output belongs to the protocol."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise TokenInvalid(f"`{TOKEN_VARIABLE}` is not set, and an agent without a token may do nothing.")
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    try:
        tokens = app.tokens
        tokens.principal(token)
        from aop.mcpserver.stdio import serve_stdio

        serve_stdio(app.gateway, lambda: tokens.principal(token), terminal.say)
    finally:
        app.close()
    return Exit.OK
