"""`aop ticket`: scaffolds and reviews tickets, and shows their runs."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aop.adapters.fleet.runs.tickets.chosen_queue import ticket_queue
from aop.adapters.git.repository import open_repository
from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.cli.shell.terminal import Terminal
from aop.cli.tickets.texts import run_text, runs_text
from aop.core.clock import timestamp
from aop.core.errors import InvalidCliArgs, Json, WorkerFailed
from aop.core.ids import RunId
from aop.core.redaction.redactor import mask_json
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.tickets.mission.keys import project_of, ticket_key
from aop.tickets.runs.history import JoinedHistory
from aop.tickets.runs.runner import PRODUCTS, TicketRunner
from aop.wiring.build import Settings
from aop.wiring.models import build_ticket_desk

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what",
        choices=[*PRODUCTS, "runs", "show", "new"],
        help="`scaffold KEY`: create a branch, a commit and a merge request; `review KEY`: review that merge request;"
        " `runs`: list the runs; `show RUN`: show the steps of a run; `new KEY --file FILE`: create a ticket in LOCAL",
    )
    parser.add_argument("name", nargs="?", metavar="KEY|RUN", help="the key of a ticket, or the id of a run")
    parser.add_argument(
        "--file", metavar="FILE", help="for `new`: a file with the summary in its first line, then the description"
    )
    parser.add_argument("--dry-run", action="store_true", help="do everything except the writes, and print those")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run the command."""
    settings = Settings.from_env(os.environ)
    if arguments.what == "new":
        from aop.cli.tickets.new_ticket import create_ticket

        return create_ticket(ticket_key(arguments.name or ""), arguments.file, settings.environ, terminal)
    repository = open_repository(Path(arguments.repo), settings.environ)
    repository.exclude_runtime_files()
    ledger, queue = TicketLedger(repository.root / LEDGER), ticket_queue(settings.environ)
    history = ledger if queue is None else JoinedHistory(ledger, queue.ledger)
    if arguments.what == "runs":
        runs = history.runs()
        return terminal.result({"runs": [*runs], "dry_runs": [*ledger.dry_runs()]}, runs_text(runs))
    if not arguments.name:
        wanted = "the id of a run" if arguments.what == "show" else "the key of a ticket"
        message = f"`aop ticket {arguments.what}` needs {wanted}."
        raise InvalidCliArgs(message, hint="List the runs with: aop ticket runs")
    if arguments.what == "show":
        found = history.run(arguments.name)
        return terminal.result(found, run_text(found))
    key = ticket_key(arguments.name)
    if arguments.dry_run:
        return _dry_run(arguments.what, key, settings, ledger, terminal)
    if queue is not None and _is_for_workers(arguments.what, key, queue):
        return _ask_workers(arguments.what, key, queue, terminal)
    return carry_out(arguments.what, key, settings, ledger, terminal)


def _is_for_workers(kind: str, key: str, queue: TicketQueue) -> bool:
    """Tell whether a worker takes the tickets of the project, or has a run of this one."""
    return queue.service().serves(project_of(key)) or queue.ledger.has_active_run(kind, key)


def _ask_workers(kind: str, key: str, queue: TicketQueue, terminal: Terminal) -> int:
    """Have a worker carry out a run, or wait for the one that the ticket has."""
    with queue:
        run_id = queue.ledger.open_run(kind, key, timestamp(SystemClock().now()))
        queue.submit(kind, run_id, key)
        terminal.say(f"Run {run_id} waits for a worker. It goes on without this command, which can be given again.")
        answer = queue.answer(run_id, terminal.say)
        queue.forget(run_id)
    if "error" in answer:
        return terminal.refuse(answer["error"], {"run": run_id})
    if "broke" in answer:
        raise WorkerFailed(answer["broke"], hint=f"Look at the worker's output, and at `aop ticket show {run_id}`.")
    return _print_ending(run_id, answer["ending"], terminal)


def carry_out(kind: str, key: str, settings: Settings, ledger: TicketLedger, terminal: Terminal) -> int:
    """Carry out a run, or continue the interrupted run of the ticket."""

    async def work() -> tuple[RunId, Mapping[str, Any]]:
        runner = TicketRunner(kind, desk, ledger, RunFiles(ledger.working_folder))
        run_id, ticket = await runner.start(key)
        terminal.say(f"Run {run_id}. After an interruption the same command continues it.")
        return run_id, await runner.carry_out(run_id, key, ticket)

    with ledger.held_open(), build_ticket_desk(settings, ledger, kind) as desk:
        run_id, ending = asyncio.run(work())
    return _print_ending(run_id, ending, terminal)


def _dry_run(kind: str, key: str, settings: Settings, ledger: TicketLedger, terminal: Terminal) -> int:
    from aop.tickets.runs.dry_run import ForgetfulLedger, dry_run

    writes: list[Mapping[str, Json]] = []
    with build_ticket_desk(settings, ForgetfulLedger(), kind) as desk:
        ending = asyncio.run(dry_run(kind, key, desk, writes.append))
        result: Json = {**{name: ending.get(name) for name in ("outcome", "step", "error")}, "writes": [*writes]}
        ledger.record_dry_run(kind, key, timestamp(desk.clock.now()), mask_json(result, desk.redact))
    failed, noted = ending["outcome"] == "failed", list[Json](writes)
    if not terminal.json:
        would = f"fail at step `{ending['step']}` and write" if failed else "write"
        terminal.text("\n".join([f"Nothing was written. A real run would {would}:", *map(_write_line, writes)]))
    if failed:
        return terminal.refuse(ending["error"], {"dry_run": True, "step": ending["step"], "writes": noted})
    return terminal.result({"dry_run": True, "outcome": ending["outcome"], "writes": noted}, "")


def _print_ending(run_id: str, ending: Mapping[str, Any], terminal: Terminal) -> int:
    if ending["outcome"] == "failed":
        return terminal.refuse(ending["error"], {"run": run_id, "step": ending["step"]})
    request = ending["merge_request"]
    where = f"{request['url']} ({request['state']})" if request else "no merge request"
    return terminal.result({"run": run_id, **ending}, f"{_ending_text(ending)}; {where}")


def _ending_text(ending: Mapping[str, Any]) -> str:
    match ending["outcome"]:
        case "reviewed":
            return f"{ending['report']['verdict']}: {count(len(ending['report']['findings']), 'finding')}"
        case "scaffolded":
            return f"{ending['branch']}: scaffolded"
        case _:
            return f"{ending['branch']}: already exists, nothing was written"


def _write_line(write: Mapping[str, Json]) -> str:
    facts = {name: value for name, value in write.items() if name != "operation"}
    return visible(f"  {write['operation']}: {msgspec.json.encode(facts).decode()[:2000]}")
