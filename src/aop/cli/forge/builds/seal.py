"""`aop forge seal` and `verify`: seal a build, and check its seal."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aop.adapters.files.user_files import put_file
from aop.cli.forge.action import Action
from aop.cli.forge.builds.audit import declare_build
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible
from aop.forge.builds.documents import Seal
from aop.forge.builds.seal.seal_texts import seal_page, seal_text
from aop.forge.builds.tools.build_seal import CheckedSeal, SealedBuild


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_build(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the seal as one self-contained HTML page too")
    parser.add_argument("--force", action="store_true", help="let --html replace an existing file")


def seal(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Seal, and exit with 0 if the build is certified or conditional, 1 if it is flagged."""
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.build_seal", {"build_id": arguments.build}, report=terminal.say)
    found = msgspec.convert(answer.data, SealedBuild)
    _write_page(found.seal, arguments)
    code = Exit.FAILED if found.seal.verdict == "FLAGGED" else Exit.OK
    return terminal.answer(answer, lambda _data: _show(found, terminal), code=code)


def _show(found: SealedBuild, terminal: Terminal) -> None:
    terminal.text(seal_text(found.seal))
    if found.publish_problem:
        terminal.say(f"The branch could not be pushed: {visible(found.publish_problem)}")
    terminal.say(f"Check it later with: aop forge verify {found.seal.build_id}")


def verify(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check the seal, and exit with 0 if it holds, 1 if it is void."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.build_verify_seal", {"build_id": arguments.build}, report=terminal.say)
    found = msgspec.convert(answer.data, CheckedSeal)
    _write_page(found.seal, arguments)
    code = Exit.OK if found.valid else Exit.FAILED
    return terminal.answer(answer, lambda _data: terminal.text(_told(found)), code=code)


def _told(found: CheckedSeal) -> str:
    seal = found.seal
    told = f"{seal.verdict}, {seal.score:g} of 100, sealed {seal.sealed_at}"
    if found.valid:
        return f"The seal of {seal.build_id} holds: {told}"
    return "\n".join(
        [f"The seal of {seal.build_id} is void: {told}", *(f"  - {visible(flaw)}" for flaw in found.flaws)]
    )


def _write_page(seal: Seal, arguments: argparse.Namespace) -> None:
    if arguments.html is not None:
        put_file(arguments.html, seal_page(seal).encode(), replace=arguments.force)


ACTIONS: Mapping[str, Action] = {"seal": Action(_declare, seal), "verify": Action(_declare, verify)}
