"""Tokens at the terminal: `aop forge tokens`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.forge.action import Action
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count

NOT_COUNTED = "-"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="PROJECT|BUILD", help="the id of a project or of a build")


def tokens(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show what agents and models were sent."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.tokens", {"target": arguments.target})
    return terminal.answer(answer, lambda data: _show(data, terminal))


def _show(data: Mapping[str, Any], terminal: Terminal) -> None:
    rows = [
        (role, *(_number(each[name]) for name in ("brief", "tools", "contracts", "fetches")))
        for role, each in data["roles"].items()
    ]
    lines = lines_of(("Role", "Brief", "Tools", "Contracts", "Fetches"), rows, terminal)
    limit = _number(data["fixed_context_limit"])
    lines += ["", f"Before the first question: at most {_number(data['fixed_context'])} tokens (limit {limit})."]
    pushed = f"Pushing all nine contracts: {_number(data['push'])} tokens in every prompt."
    lines.append(pushed if data["push"] else "The project has no contracts yet.")
    lines += _generation(data["generation"])
    lines += ["", f"Estimates, counted with {data['tokenizer']}; models with another vocabulary count differently."]
    terminal.text("\n".join(lines))


def _generation(data: Mapping[str, Any]) -> list[str]:
    if not data["contracts"]:
        return ["No generation is recorded."]
    used, snowball = data["tool_use"], data["snowball"]
    lines = [
        f"Generation with tools: {_number(used['sent'])} tokens in {count(used['requests'], 'request')},"
        f" {_number(used['cached'])} of them sent before.",
        f"The same by snowball: {_number(snowball['sent'])} tokens in {count(snowball['requests'], 'request')}.",
    ]
    if used["reported_input"] is not None:
        lines.append(
            f"Providers reported: {_number(used['reported_input'])} input tokens"
            f" ({_number(used['reported_cached'])} cached), {_number(used['reported_output'])} output tokens."
        )
    return lines


def _number(value: int | None) -> str:
    return NOT_COUNTED if value is None else f"{value:,}"


ACTIONS: Mapping[str, Action] = {"tokens": Action(_declare, tokens)}
