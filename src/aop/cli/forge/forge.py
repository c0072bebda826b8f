"""`aop forge`: make contracts for a project, edit them, and pin them for a build."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module

from msgspec import Struct

from aop.cli.forge.action import Action
from aop.cli.shell.parser import Parser
from aop.cli.shell.terminal import Terminal

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "a project and its answers": {
        "new": ("projects", "begin a project, for an idea or for a repository"),
        "ask": ("ask", "answer the questions about a project, or change answers"),
        "list": ("projects", "list the projects, and how far each is"),
        "show": ("projects", "show one project with its contracts and builds, or print one contract"),
        "delete": ("projects", "delete a project with its answers, scans and contracts, after showing it"),
    },
    "a repository": {
        "scan": ("scans", "read a commit of this repository: its structure, its dependencies, its health"),
        "map": ("scans", "show the packages of the newest scan, or one folder with its files"),
        "plan": ("scans", "make the renovation plan of the newest scan"),
    },
    "contracts": {
        "generate": ("generate", "let a model write the nine contracts, or continue where it was interrupted"),
        "edit": ("contracts.edit", "change one contract, from a file or in your editor"),
        "history": ("contracts.versions", "list the versions of a contract"),
        "diff": ("contracts.versions", "print the difference of two versions of a contract"),
        "export": ("contracts.versions", "write the contracts into a new folder"),
    },
    "builds and agents": {
        "pin": ("contracts.versions", "make a build that keeps reading the contracts as they are now"),
        "build": ("builds.build", "build a project from its contracts, or continue where it was interrupted"),
        "log": ("builds.log", "print what happened in a build, and follow it"),
        "check": ("check", "test the code by the contracts: boundaries, routes, tables"),
        "status": ("builds.build_status", "show a build: its phase, its branch, and its newest commits"),
        "abandon": ("builds.build_status", "end a build without a seal; its branch stays as it is"),
        "audit": ("builds.audit", "audit the tree of a build: thirteen checks, each with its proof"),
        "seal": ("builds.seal", "score and sign what was built, and end its branch"),
        "verify": ("builds.seal", "check that a seal still holds: tree, branch, contracts and evidence"),
        "tokens": ("tokens", "count what agents were sent for a project or a build"),
        "key": ("key", "make, list or revoke the keys for the HTTP interface"),
    },
    "a build at work": {
        "pause": ("builds.controls", "pause a build after its current step"),
        "resume": ("builds.controls", "let a build go on that is paused, stopped, silent or at its cap"),
        "cancel": ("builds.controls", "end a build for good; its branch stays"),
        "interject": ("builds.controls", "tell the model of a build something before its next reply"),
        "note": ("builds.note", "print or replace your note on a project, which its builds read"),
        "errors": ("builds.errors", "list the errors of a build, or dismiss one"),
    },
}
"""The actions as `aop forge --help` groups them."""
ACTIONS: Mapping[str, tuple[str, str]] = {name: row for rows in GROUPS.values() for name, row in rows.items()}
"""Each action: the module below this folder that has it in its `ACTIONS`, and what it does."""


class ForgeVerb(Struct, frozen=True):
    """`aop forge ACTION`, a verb like any other."""

    name: str
    action: Action

    def arguments(self, parser: Parser) -> None:
        """Declare the name of the action, which is the first word, and what follows it."""
        text = ACTIONS[self.name][1]
        parser.description, parser.action = f"{text[0].upper()}{text[1:]}.", self.name
        parser.add_argument("action", choices=[self.name], metavar=self.name, help="the action")
        self.action.declare(parser)

    def run(self, arguments: argparse.Namespace, terminal: Terminal) -> int:
        """Carry out the action."""
        return self.action.run(arguments, terminal)


def action_of(words: Sequence[str]) -> ForgeVerb | None:
    """Return the action that the words after `aop forge` name; None if they name none."""
    before = ["", *words]
    plain = [word for word, last in zip(words, before, strict=False) if not word.startswith("-") and last != "--repo"]
    if not plain or plain[0] not in ACTIONS:
        return None
    module, _ = ACTIONS[plain[0]]
    return ForgeVerb(plain[0], import_module(f"aop.cli.forge.{module}").ACTIONS[plain[0]])


def arguments(parser: Parser) -> None:
    """Declare the actions, of which one has to be named."""
    parser.add_argument("action", choices=list(ACTIONS), metavar="ACTION", help="one of those below")
    width = max(map(len, ACTIONS)) + 2
    parser.listing = "".join(
        f"\n{title}:\n" + "".join(f"  {name:<{width}}{text}\n" for name, (_, text) in rows.items())
        for title, rows in GROUPS.items()
    )
    parser.listing += "\n`aop forge ACTION --help` shows the arguments of an action, with examples.\n"
