"""`aop call`: any tool, through the gateway, as the person at the terminal in a role of their choice."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from aop.cli.exits import Exit, exit_of
from aop.cli.role_words import role
from aop.cli.terminal import Terminal
from aop.core.errors import InvalidArguments, Json
from aop.core.jsontext import MalformedText, parse_json
from aop.core.roles import Role
from aop.wiring import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("tool", metavar="TOOL", help="such as `feature.init` or `report.dashboard`")
    parser.add_argument("input", metavar="JSON", nargs="?", default="{}", help="the arguments; `-` reads stdin")
    parser.add_argument("--role", type=role, default=Role.ORCHESTRATOR, metavar="ROLE")
    parser.add_argument("--operation-id", metavar="ID", help="the same id twice runs once")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Call the tool; print the envelope."""
    payload = _parsed(terminal.read_all() if arguments.input == "-" else arguments.input)
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    answer = app.gateway.call(
        msgspec.structs.replace(app.person, role=arguments.role),
        arguments.tool,
        payload,
        operation_id=arguments.operation_id,
        report=terminal.say,
    )
    app.close()
    terminal.object(answer.as_json())
    return Exit.OK if answer.error is None else exit_of(str(answer.error["code"]))


def _parsed(text: str) -> Json:
    try:
        return parse_json(text)
    except MalformedText as error:
        raise InvalidArguments(f"The arguments are not JSON: {error}.") from error
