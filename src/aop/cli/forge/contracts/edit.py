"""`aop forge edit`: change one contract, from a file or in an editor."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.cli.forge.action import Action, declare_contract
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import ContractRefused, InvalidCliArgs, SecretDetected
from aop.forge.contracts.types import ContractType, file_name
from aop.wiring.build import App


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_contract(parser)
    parser.add_argument("--file", metavar="FILE", help="the new text; `-` reads standard input (default: your editor)")
    parser.add_argument(
        "--expect", metavar="N", type=int, help="refuse if the newest version is another one (default: as read now)"
    )


def edit(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Store a new version of a contract; a refused text from the editor is not lost."""
    with open_app(arguments) as app:
        which = {"project_id": arguments.project, "contract_type": arguments.contract_type}
        current = call_tool(app, "forge.contract_show", which).data
        expected = current["version"] if arguments.expect is None else arguments.expect
        request = {**which, "expected_version": expected}
        if arguments.file is None:
            return _edit_by_hand(app, request, current["content"], terminal)
        answer = call_tool(app, "forge.contract_edit", {**request, "content": _given_text(arguments.file, terminal)})
    return terminal.answer(answer, lambda data: _show(data, terminal))


def _given_text(file: str, terminal: Terminal) -> str:
    if file == "-":
        return terminal.read_all()
    from aop.adapters.files.user_files import read_text

    return read_text(Path(file))


def _edit_by_hand(app: App, request: Mapping[str, Any], draft: str, terminal: Terminal) -> int:
    """Open the editor until the text is accepted, or the person gives up. Raises: InvalidCliArgs."""
    from aop.adapters.machine.editor import kept_text, written_text

    if not terminal.is_interactive:
        hint = "Name a file with `--file FILE`, or `--file -` for standard input."
        raise InvalidCliArgs("There is no text, and no terminal for an editor.", hint=hint)
    name, text = file_name(ContractType(request["contract_type"])), draft
    while True:
        text = written_text(name, text, os.environ)
        try:
            answer = call_tool(app, "forge.contract_edit", {**request, "content": text})
        except CallRefused as refused:
            code, reason = terminal.refuse(refused.error, refused.evidence), refused.error["code"]
            if reason == ContractRefused.code and terminal.confirm("Edit it again?"):
                continue
            # A secret is kept nowhere.
            if reason != SecretDetected.code:
                terminal.say(f"Your text is kept in {kept_text(name, text)}")
            return code
        return terminal.answer(answer, lambda data: _show(data, terminal))


def _show(data: Mapping[str, Any], terminal: Terminal) -> None:
    if data["changed"]:
        terminal.say(f"Stored version {data['version']} of {data['contract_type']}, in batch {data['batch']}.")
    else:
        terminal.say("The text is what the contract already was. Nothing changed.")


ACTIONS: Mapping[str, Action] = {"edit": Action(_declare, edit)}
