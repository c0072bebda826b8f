"""`aop call`: call any tool through the gateway; every outcome is one JSON object."""

from __future__ import annotations

import argparse

import msgspec

from aop.cli.agents.roles import role
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidArguments, Json
from aop.core.roles import Role
from aop.core.text.json import MalformedText, parse_json
from aop.kernel.gateway.calls import Tool
from aop.wiring.catalogue import CATALOGUE

ESCALATION = "escalate_for_external_help"
"""Ends the loop of an agent that only has a shell; its report is printed unchanged (GATED-84)."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("tool", metavar="TOOL", help="the tool: `aop tools` lists them")
    parser.add_argument(
        "input", metavar="JSON", nargs="?", default="{}", help="its arguments; `-` reads standard input"
    )
    parser.add_argument(
        "--role", type=role, metavar="ROLE", help="(default: `swe` for the tools of that role, else `orchestrator`)"
    )
    parser.add_argument("--operation-id", metavar="ID", help="two calls with the same id take effect once")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Call the tool, and print its answer."""
    payload = _payload(terminal.read_all() if arguments.input == "-" else arguments.input)
    row = CATALOGUE.get(arguments.tool)
    only_reads = row is not None and not row.mutates
    with open_app(arguments, to_read=only_reads, asks_models=not only_reads) as app:
        answer = app.gateway.call(
            msgspec.structs.replace(app.person, role=arguments.role or _role_for(row)),
            arguments.tool,
            payload,
            operation_id=arguments.operation_id,
            report=(lambda _line: None) if arguments.tool == ESCALATION else terminal.say,
        )
    if arguments.tool == ESCALATION and answer.ok and not arguments.json:
        terminal.exact(answer.data["markdown_report"])
        return Exit.ESCALATED
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    code = Exit.ESCALATED if arguments.tool == ESCALATION else Exit.OK
    return terminal.answer(answer, lambda _data: None, code=code)


def _role_for(row: Tool | None) -> Role:
    """Return the default role: some agents have only a shell, and call the tools of `swe` with it."""
    return Role.SWE if row is not None and Role.SWE in row.roles else Role.ORCHESTRATOR


def _payload(text: str) -> Json:
    try:
        return parse_json(text)
    except MalformedText as error:
        raise InvalidArguments(f"The arguments are not JSON: {error}.") from error
