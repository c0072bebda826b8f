"""`aop ticket`: from a ticket to a scaffold, and to a review; and what became of each run."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.git.repository import open_repository
from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.run_files import RunFiles
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.cli.tickets.texts import run_text, runs_text
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import RunId
from aop.core.text.visible import visible
from aop.tickets.mission.keys import ticket_key
from aop.tickets.runs.runner import PRODUCTS, TicketRunner
from aop.wiring.build import Settings, build_ticket_desk

LEDGER = ".aop/tickets/ledger.db"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument(
        "what",
        choices=[*PRODUCTS, "runs", "show", "new"],
        help="`scaffold KEY`: make a branch, a commit and a merge request; `review KEY`: review that merge request;"
        " `runs`: list; `show RUN`: every step; `new KEY --file FILE`: a ticket of LOCAL",
    )
    parser.add_argument("name", nargs="?", metavar="KEY|RUN", help="the ticket, or the run")
    parser.add_argument(
        "--file", metavar="FILE", help="with `new`: the summary on the first line, then the description"
    )
    parser.add_argument("--dry-run", action="store_true", help="compute and print everything, write nothing")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do what was asked for."""
    settings = Settings.from_env(os.environ)
    if arguments.what == "new":
        from aop.cli.tickets.new import make_ticket

        return make_ticket(ticket_key(arguments.name or ""), arguments.file, settings.environ, terminal)
    repository = open_repository(Path(arguments.repo), settings.environ)
    repository.exclude_runtime_files()
    ledger = TicketLedger(repository.root / LEDGER)
    if arguments.what == "runs":
        return _runs(ledger, terminal)
    if not arguments.name:
        raise InvalidCliArgs(f"`aop ticket {arguments.what}` needs a name.", hint="Name the ticket, or the run.")
    if arguments.what == "show":
        return _show(ledger.run(arguments.name), terminal)
    key = ticket_key(arguments.name)
    if arguments.dry_run:
        return _dry_run(arguments.what, key, settings, terminal)
    return carry_out(arguments.what, key, settings, ledger, terminal)


def carry_out(kind: str, key: str, settings: Settings, ledger: TicketLedger, terminal: Terminal) -> int:
    """Carry out a run; one of the same ticket that was interrupted is taken up again in place of a new one."""

    async def work() -> tuple[RunId, Mapping[str, Any]]:
        runner = TicketRunner(kind, desk, ledger, RunFiles(ledger.working_folder))
        run_id, ticket = await runner.start(key)
        terminal.say(f"Run {run_id}; if it is interrupted, the same command goes on with it.")
        return run_id, await runner.carry_out(run_id, key, ticket)

    with ledger.held_open(), build_ticket_desk(settings, ledger, kind) as desk:
        run_id, ending = asyncio.run(work())
    return _ended(run_id, ending, terminal)


def _dry_run(kind: str, key: str, settings: Settings, terminal: Terminal) -> int:
    from aop.tickets.runs.dry_run import ForgetfulLedger, dry_run

    writes: list[Mapping[str, Json]] = []
    with build_ticket_desk(settings, ForgetfulLedger(), kind) as desk:
        ending = asyncio.run(dry_run(kind, key, desk, writes.append))
    failed, shown = ending["outcome"] == "failed", list[Json](writes)
    if not terminal.json:
        would = f" fail at the step `{ending['step']}`, and write" if failed else ""
        terminal.text("\n".join([f"Nothing was written. A real run would{would}:", *map(_write_line, writes)]))
    if failed:
        return terminal.refuse(ending["error"], {"dry_run": True, "step": ending["step"], "writes": shown})
    if terminal.json:
        terminal.object({"ok": True, "data": {"dry_run": True, "outcome": ending["outcome"], "writes": shown}})
    return Exit.OK


def _ended(run_id: str, ending: Mapping[str, Any], terminal: Terminal) -> int:
    if ending["outcome"] == "failed":
        return terminal.refuse(ending["error"], {"run": run_id, "step": ending["step"]})
    if terminal.json:
        terminal.object({"ok": True, "data": {"run": run_id, **ending}})
        return Exit.OK
    request = ending["merge_request"]
    where = f"{request['url']} ({request['state']})" if request else "no merge request"
    terminal.text(f"{_told(ending)}; {where}")
    return Exit.OK


def _told(ending: Mapping[str, Any]) -> str:
    match ending["outcome"]:
        case "reviewed":
            return f"{ending['report']['verdict']}: {len(ending['report']['findings'])} findings"
        case "scaffolded":
            return f"{ending['branch']}: scaffolded"
        case _:
            return f"{ending['branch']}: exists already, nothing was written"


def _runs(ledger: TicketLedger, terminal: Terminal) -> int:
    runs = ledger.runs()
    if terminal.json:
        terminal.object({"ok": True, "data": {"runs": [*runs]}})
    else:
        terminal.text(runs_text(runs))
    return Exit.OK


def _show(found: Mapping[str, Any], terminal: Terminal) -> int:
    if terminal.json:
        terminal.object({"ok": True, "data": found})
    else:
        terminal.text(run_text(found))
    return Exit.OK


def _write_line(write: Mapping[str, Json]) -> str:
    facts = {name: value for name, value in write.items() if name != "operation"}
    return visible(f"  {write['operation']}: {msgspec.json.encode(facts).decode()[:2000]}")
