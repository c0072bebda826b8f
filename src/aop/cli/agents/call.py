"""`aop call`: any tool, through the gateway, as the person at the terminal in a role of their choice."""

from __future__ import annotations

import argparse

import msgspec

from aop.cli.agents.roles import role
from aop.cli.shell.exits import Exit, exit_of
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidArguments, Json
from aop.core.roles import Role
from aop.core.text.json import MalformedText, parse_json
from aop.wiring.build import App

ESCALATION = "escalate_for_external_help"
"""Ends the loop of an agent that only has a shell: its report is printed as it is (GATED-84)."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("tool", metavar="TOOL", help="such as `feature.init` or `report.dashboard`")
    parser.add_argument("input", metavar="JSON", nargs="?", default="{}", help="the arguments; `-` reads stdin")
    parser.add_argument(
        "--role", type=role, metavar="ROLE", help="(default: `swe` for its own tools, else orchestrator)"
    )
    parser.add_argument("--operation-id", metavar="ID", help="the same id twice runs once")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Call the tool; print the envelope."""
    payload = _parsed(terminal.read_all() if arguments.input == "-" else arguments.input)
    with open_app(arguments) as app:
        answer = app.gateway.call(
            msgspec.structs.replace(app.person, role=arguments.role or _role_for(app, arguments.tool)),
            arguments.tool,
            payload,
            operation_id=arguments.operation_id,
            report=(lambda _line: None) if arguments.tool == ESCALATION else terminal.say,
        )
    if arguments.tool == ESCALATION and answer.ok:
        terminal.exact(answer.data["markdown_report"])
        return Exit.ESCALATED
    terminal.object(answer.as_json())
    return Exit.OK if answer.error is None else exit_of(str(answer.error["code"]))


def _role_for(app: App, tool: str) -> Role:
    """Return the role that a person takes who names none: a shell is all that some agents have."""
    row = app.gateway.tools.get(tool)
    return Role.SWE if row is not None and Role.SWE in row.roles else Role.ORCHESTRATOR


def _parsed(text: str) -> Json:
    try:
        return parse_json(text)
    except MalformedText as error:
        raise InvalidArguments(f"The arguments are not JSON: {error}.") from error
