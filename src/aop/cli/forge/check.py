"""`aop forge check`: test code by the clauses of contracts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from aop.adapters.files.user_files import put_plain_file, read_plain_file
from aop.cli.forge.action import Action, declare_project
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InputPathNotFound, InvalidCliArgs
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.forge.check.clauses import contracts_to_check
from aop.forge.check.code_files import code_at
from aop.forge.check.junit import junit_report
from aop.forge.check.verdicts import CheckReport, clauses_of, report_on
from aop.forge.contracts.readers import MAX_CONTRACT_BYTES
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType, file_name
from aop.kernel.gateway.calls import Envelope

SHOWN_PROOFS = 5


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--ref", default=None, metavar="REF", help="the branch, tag or commit to check; default: HEAD")
    where.add_argument(
        "--contracts",
        metavar="DIR",
        help="take the contracts from this folder, and check the files of the current one; needs no record, for gates",
    )
    parser.add_argument("--junit", metavar="FILE", help="write a JUnit report with a test case for each clause")
    parser.add_argument(
        "--accept",
        metavar="CLAUSE",
        help="accept this clause as it is now; it is a violation again when its line changes",
    )


def check(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check, and exit with 0 if every clause holds or is accepted, 1 if one is violated, 3 if one is unknown."""
    answer = _in_folder(arguments, terminal) if arguments.contracts is not None else _at_commit(arguments, terminal)
    report = msgspec.convert(answer.data, CheckReport)
    if arguments.junit is not None:
        put_plain_file(Path(arguments.junit), junit_report(report, arguments.project).encode())
    code = Exit.FAILED if report.violated else Exit.NOT_PROVEN if report.unknown else Exit.OK
    accept = f"aop forge check {arguments.project} --accept CLAUSE" if arguments.contracts is None else ""
    return terminal.answer(answer, lambda _data: _show(report, accept, terminal), code=code)


def _at_commit(arguments: argparse.Namespace, terminal: Terminal) -> Envelope:
    request = {"project_id": arguments.project, "ref": arguments.ref or "HEAD"}
    with open_app(arguments, to_read=arguments.accept is None) as app:
        if arguments.accept is None:
            return call_tool(app, "forge.check", request, report=terminal.say)
        return call_tool(app, "forge.accept", {**request, "clause": arguments.accept}, report=terminal.say)


def _in_folder(arguments: argparse.Namespace, terminal: Terminal) -> Envelope:
    """Check the files of a folder as they are on disk, as a step of a gate does."""
    # Both are needed here alone, and cost a start-up more than the rest of this module.
    from aop.adapters.projects.deep_scan.commit_scanner import CommitScanner
    from aop.adapters.projects.deep_scan.folder_commit import committed_folder

    if arguments.accept is not None:
        raise InvalidCliArgs(
            "`--accept` needs the record; contracts of a folder accept by their `known_violations`.",
            hint="Leave `--contracts` out, or list the violation in `boundaries.json`.",
        )
    contracts = contracts_to_check(_texts(Path(arguments.contracts)), "full")
    with committed_folder(Path(arguments.repo).resolve(), os.environ) as (repository, commit):
        code = code_at(commit, CommitScanner(repository), repository.objects, terminal.say)
        report = report_on("", clauses_of(contracts, code), Redactor().mask_secrets)
    return Envelope(ok=True, data=msgspec.to_builtins(report))


def _texts(folder: Path) -> Mapping[ContractType, str]:
    if not folder.is_dir():
        raise InputPathNotFound(f"`{folder}` is not a folder.")
    texts = {}
    for each in CONTRACT_TYPES:
        path = folder / file_name(each)
        content = read_plain_file(path, most=MAX_CONTRACT_BYTES + 1)
        if content is None:
            continue
        try:
            texts[each] = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputPathNotFound(f"`{path}` cannot be read as text.") from error
    return texts


def _show(report: CheckReport, accept: str, terminal: Terminal) -> None:
    terminal.text("\n".join(_lines(report)))
    if accept and (report.violated or report.unknown):
        terminal.say(f"Accept one as it is with: {accept}")


def _lines(report: CheckReport) -> Iterator[str]:
    for each in report.clauses:
        if each.verdict in ("violated", "unknown"):
            yield f"{each.verdict}  {visible(each.clause)}"
            yield f"  {visible(each.statement)}"
            if each.detail:
                yield f"  {visible(each.detail)}"
        if each.verdict == "violated":
            yield from (f"  {visible(f'{at.file}:{at.line}: {at.text}')}" for at in each.proofs[:SHOWN_PROOFS])
            if len(each.proofs) > SHOWN_PROOFS:
                yield f"  and {count(len(each.proofs) - SHOWN_PROOFS, 'more line')}"
    counts = {
        "holds" if report.holds == 1 else "hold": report.holds,
        "violated": report.violated,
        "unknown": report.unknown,
        "accepted": report.accepted,
    }
    yield f"{count(len(report.clauses), 'clause')}: " + ", ".join(f"{number} {name}" for name, number in counts.items())


ACTIONS: Mapping[str, Action] = {"check": Action(_declare, check)}
