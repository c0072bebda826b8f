"""`aop tools`: list the tools, and write or check the files that describe them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from aop.adapters.config.locations import FOLDER
from aop.adapters.files.generated import Drift
from aop.adapters.git.process.discovery import find_top
from aop.adapters.git.process.program import GitProgram
from aop.cli.agents.contracts import Contracts, contracts_in
from aop.cli.agents.roles import role
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import ContractDrift
from aop.core.text.counts import count
from aop.kernel.contracts.contract_files import catalog_row, undescribed
from aop.kernel.gateway.calls import Tool
from aop.kernel.gateway.principals import Principal
from aop.wiring.catalogue import CATALOGUE


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        choices=["list", "write", "check"],
        nargs="?",
        default="list",
        help="list the tools; write the files that describe them; check that these files are up to date",
    )
    parser.add_argument("--role", type=role, metavar="ROLE", help="list only the tools of this role")
    parser.add_argument("--to", metavar="DIR", help=f"write or check: this folder instead of `{FOLDER}`")
    parser.add_argument("--docs", action="store_true", help="write or check: also docs/*.md, in AOP's own repository")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, write or check."""
    if arguments.action == "list":
        return _list(_selected_tools(arguments), terminal)
    contracts = _contracts(arguments)
    drifted = contracts.drift()
    if arguments.action == "check":
        return _check(contracts, drifted, terminal, docs=arguments.docs)
    contracts.write(drifted)
    for drift in drifted:
        terminal.say(f"{'Removed' if drift.how == 'left over' else 'Wrote'} {drift.path}")
    terminal.say(f"{count(len(contracts.files), 'file is', 'files are')} up to date.")
    return terminal.result({"written": [drift.path for drift in drifted]}, "")


def _selected_tools(arguments: argparse.Namespace) -> Iterable[Tool]:
    if arguments.role is None:
        return CATALOGUE.values()
    with open_app(arguments) as app:
        return app.gateway.tools_for(Principal(role=arguments.role, actor=app.person.actor))


def _list(tools: Iterable[Tool], terminal: Terminal) -> int:
    rows = sorted(tools, key=lambda tool: tool.name)
    width = max((len(tool.name) for tool in rows), default=0)
    lines = [f"{tool.name:<{width}}  {_kind(tool):<7}  {tool.summary}" for tool in rows]
    return terminal.result({"tools": [catalog_row(tool) for tool in rows]}, "\n".join(lines))


def _kind(tool: Tool) -> str:
    if tool.person_only:
        return "person"
    return "changes" if tool.mutates else "reads"


def _contracts(arguments: argparse.Namespace) -> Contracts:
    if arguments.to is not None:
        return contracts_in(Path(arguments.to), folder="")
    # The files of the checkout that the person is in: a linked worktree has its own.
    return contracts_in(find_top(GitProgram(os.environ), Path(arguments.repo)), docs=arguments.docs)


def _check(contracts: Contracts, drifted: tuple[Drift, ...], terminal: Terminal, *, docs: bool) -> int:
    bare = undescribed(CATALOGUE) if docs else []
    for line in (*(f"{drift.how}: {drift.path}" for drift in drifted), *(f"no description: {each}" for each in bare)):
        terminal.say(line)
    if bare:
        raise ContractDrift(
            f"{count(len(bare), 'property or refusal has', 'properties or refusals have')} no description.",
            hint="Write a docstring below the field or the class, or a line into `kernel/contracts/property_words.py`.",
            undescribed=bare,
        )
    if drifted:
        raise ContractDrift(
            f"{count(len(drifted), 'generated file is', 'generated files are')} out of date.",
            hint=f"Run `aop tools write{' --docs' if docs else ''}`, review the changes, and commit them.",
            drifted=[msgspec.to_builtins(drift) for drift in drifted],
        )
    terminal.say(f"{count(len(contracts.files), 'file is', 'files are')} up to date.")
    return terminal.result({"drifted": []}, "")
