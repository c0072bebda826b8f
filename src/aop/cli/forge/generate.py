"""Generation at the terminal: `aop forge generate`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.text.counts import count
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType


def _declare_generate(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument(
        "--model", metavar="MODEL", help="as `provider:model`; otherwise FORGE_LLM_MODEL_PRIORITY or AOP_MODELS says it"
    )
    parser.add_argument(
        "--only", metavar="TYPE", choices=[*CONTRACT_TYPES], help="write this one again and keep the others"
    )
    parser.add_argument(
        "--compare", action="store_true", help="write all nine by tools and by snowball, and store nothing"
    )


def generate(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the contracts of a project, or go on with them; the same command continues an interrupted run."""
    from aop.forge.generation.stored_steps import ToolRefused
    from aop.wiring.forge.generation import PRODUCT, ContractGeneration
    from aop.wiring.models import build_brain

    with open_app(arguments) as app:
        try:
            generation = ContractGeneration(app, app.person, arguments.project, terminal.say)
            brain = build_brain(app.settings, chosen=arguments.model, product=PRODUCT)
            if arguments.compare:
                compared = generation.compare(brain)
                return terminal.result(compared, "\n".join(_comparison_lines(compared["contracts"], terminal)))
            only = ContractType(arguments.only) if arguments.only else None
            stored = generation.generate(brain, only)
        except ToolRefused as refused:
            raise CallRefused(refused.error, refused.evidence) from refused
    return terminal.result(dict(stored), "\n".join(_stored_lines(stored, terminal)))


def _stored_lines(stored: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    project, usage = stored["project_id"], stored["usage"]
    written = count(len(usage), "contract")
    yield f"{project}: wrote {written}; batch {stored['batch']}, {stored['sha256']}"
    rows = [
        (each["contract_type"], str(each["version"]), each["sha256"][:12], *_usage_cells(usage, each["contract_type"]))
        for each in stored["contracts"]
    ]
    yield from lines_of(("Contract", "Version", "SHA-256", "Turns", "Input", "Output"), rows, terminal)
    if stored["contradictions"]:
        yield f"{count(stored['contradictions'], 'contradiction')}. Read with: aop forge show {project}"
    else:
        yield "Contradictions: none"
    yield f"Pin them for a build with: aop forge pin {project}"


def _usage_cells(usage: Mapping[str, Mapping[str, Any]], contract_type: str) -> tuple[str, str, str]:
    used = usage.get(contract_type, {})
    turns, given, taken = (used.get(name) for name in ("turns", "input_tokens", "output_tokens"))
    return _number(turns), _number(given), _number(taken)


def _comparison_lines(rows: list[Mapping[str, Any]], terminal: Terminal) -> Iterator[str]:
    cells = [
        (
            row["contract_type"],
            *(_number(row[way][name]) for way in ("tools", "snowball") for name in ("requests", "sent")),
        )
        for row in rows
    ]
    titles = ("Contract", "Requests", "Sent by tools", "Requests", "Sent by snowball")
    yield from lines_of(titles, cells, terminal)
    yield "Nothing was stored. Sent tokens are estimates, summed over all requests."


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


ACTIONS: Mapping[str, Action] = {"generate": Action(_declare_generate, generate)}
