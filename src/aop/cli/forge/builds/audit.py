"""`aop forge audit`: every check of a build on its tree as it is now."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

import msgspec

from aop.cli.forge.action import Action
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.visible import visible
from aop.forge.builds.tools.build_audit import BuildAudit

SHOWN_PROOFS = 5


def declare_build(parser: argparse.ArgumentParser) -> None:
    """Declare the build that an action is about."""
    parser.add_argument("build", metavar="BUILD", help="the id of the build, as `aop forge show PROJECT` lists it")


def audit(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Audit, and exit with 0 if no check fails, 1 if one does, 3 if one could not be computed."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.build_audit", {"build_id": arguments.build}, report=terminal.say)
    found = msgspec.convert(answer.data, BuildAudit)
    verdicts = {check.verdict for check in found.checks}
    code = Exit.FAILED if "FAIL" in verdicts else Exit.NOT_PROVEN if "ERROR" in verdicts else Exit.OK
    return terminal.answer(answer, lambda _data: terminal.text("\n".join(_lines(found))), code=code)


def _lines(found: BuildAudit) -> Iterator[str]:
    yield f"{found.build_id}, phase {found.phase}, tree {found.tree[:12]}"
    for check in found.checks:
        yield f"{check.code}  {check.verdict:<5}  {check.name}"
        yield from (f"           {visible(line)}" for line in check.proof[:SHOWN_PROOFS])
        if len(check.proof) > SHOWN_PROOFS:
            yield f"           and {len(check.proof) - SHOWN_PROOFS} more"
    counts = ((verdict, sum(check.verdict == verdict for check in found.checks)) for verdict in _VERDICTS)
    yield ", ".join(f"{number} {verdict}" for verdict, number in counts if number)


_VERDICTS = ("PASS", "WARN", "FAIL", "ERROR")

ACTIONS: Mapping[str, Action] = {"audit": Action(declare_build, audit)}
