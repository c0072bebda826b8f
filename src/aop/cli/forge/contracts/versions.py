"""Versions of contracts: `aop forge history`, `diff`, `export` and `pin`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.adapters.files.archives import put_folder
from aop.cli.forge.action import Action, declare_contract, declare_project
from aop.cli.forge.rows import lines_of, print_text
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.wiring.build import App

HISTORY = {
    "Version": "version",
    "Stored": "updated_at",
    "Author": "author",
    "Characters": "size_chars",
    "SHA-256": "sha256",
}


def history(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the versions of a contract."""
    request = {"project_id": arguments.project, "contract_type": arguments.contract_type}
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.contract_history", request)

    def show(data: Mapping[str, Any]) -> None:
        rows = [[str(each[name]) for name in HISTORY.values()] for each in data["versions"]]
        terminal.text("\n".join(lines_of(tuple(HISTORY), rows, terminal)))

    return terminal.answer(answer, show)


def _declare_diff(parser: argparse.ArgumentParser) -> None:
    declare_contract(parser)
    parser.add_argument("before", metavar="A", type=int, help="the number of a version")
    parser.add_argument("after", metavar="B", type=int, help="the number of another version")


def diff(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the difference of two versions of a contract."""
    request = {
        "project_id": arguments.project,
        "contract_type": arguments.contract_type,
        "before": arguments.before,
        "after": arguments.after,
    }
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.contract_diff", request)

    def show(data: Mapping[str, Any]) -> None:
        if data["text"]:
            print_text(data["text"], terminal)
        else:
            terminal.say("The two versions have the same content.")

    return terminal.answer(answer, show)


def _declare_export(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument("folder", metavar="DIR", help="a new or empty folder")
    parser.add_argument("--build", metavar="B", help="the contracts that this build pinned (default: the newest)")
    parser.add_argument("--yes", action="store_true", help="write into the checkout of the repository without asking")


def export(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the nine contracts into a folder, all or none."""
    folder = Path(os.path.abspath(arguments.folder))
    with open_app(arguments, to_read=True) as app:
        request = {"project_id": arguments.project, "build_id": arguments.build}
        batch = call_tool(app, "forge.contract_export", request).data
        if not (arguments.yes or _may_write(app, folder, terminal)):
            terminal.say("Nothing was written.")
            return Exit.NOT_PROVEN
    put_folder(folder, {each["file"]: each["content"].encode() for each in batch["contracts"]})
    files = [str(folder / each["file"]) for each in batch["contracts"]]
    data = {**{name: batch[name] for name in ("project_id", "build_id", "batch", "sha256")}, "files": files}
    if not terminal.json:
        terminal.say(f"Wrote {count(len(files), 'contract')} of batch {batch['batch']}.")
    return terminal.result(data, str(folder))


def _may_write(app: App, folder: Path, terminal: Terminal) -> bool:
    """Ask before a folder of the user's checkout is written. Raises: InvalidCliArgs where none can be asked."""
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(os.path.realpath(app.root)):
        return True
    if not terminal.is_interactive:
        hint = "Name a folder elsewhere, or pass `--yes`."
        raise InvalidCliArgs(f"`{folder}` lies in the checkout of this repository.", hint=hint)
    return terminal.confirm(f"`{folder}` lies in the checkout of this repository. Write the contracts there?")


def pin(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Pin the contracts of a project for a new build, and print its id."""
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.pin", {"project_id": arguments.project})

    def show(data: Mapping[str, Any]) -> None:
        terminal.text(data["build_id"])
        terminal.say(f"The build reads batch {data['batch']} ({data['sha256']}), whatever is edited later.")
        terminal.say(f"Give an agent a token for it with: aop token coder --build {data['build_id']}")

    return terminal.answer(answer, show)


ACTIONS: Mapping[str, Action] = {
    "history": Action(declare_contract, history),
    "diff": Action(_declare_diff, diff),
    "export": Action(_declare_export, export),
    "pin": Action(declare_project, pin),
}
