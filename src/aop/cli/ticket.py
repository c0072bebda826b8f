"""`aop ticket`: from a ticket to a scaffold, and to a review; and what became of each run."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from aop.adapters.git.repository import open_repository
from aop.adapters.ticket_ledger import BROKEN, TicketLedger
from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.core.clock import timestamp
from aop.core.errors import Fault, InvalidCliArgs, Json
from aop.core.redaction import Redactor
from aop.core.run import Pipeline
from aop.core.visibletext import visible
from aop.tickets.steps import Desk, Ledger
from aop.wiring import Settings, build_brain

PRODUCTS = {"scaffold": "scaffolding", "review": "code-review"}
"""The work that can be asked for, and the product whose models do it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument(
        "what",
        choices=[*PRODUCTS, "runs", "show"],
        help="`scaffold KEY`: make a branch, a commit and a merge request; `review KEY`: review that merge request;"
        " `runs`: list; `show RUN`: every step",
    )
    parser.add_argument("name", nargs="?", metavar="KEY|RUN", help="the ticket, or the run")
    parser.add_argument("--dry-run", action="store_true", help="compute and print everything, write nothing")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do what was asked for."""
    settings = Settings.from_env(os.environ)
    root = open_repository(Path(arguments.repo), settings.environ).root
    ledger = TicketLedger(root / ".aop" / "tickets" / "ledger.db")
    if arguments.what == "runs":
        return _runs(ledger, terminal)
    if not arguments.name:
        raise InvalidCliArgs(f"`aop ticket {arguments.what}` needs a name.", hint="Name the ticket, or the run.")
    if arguments.what == "show":
        return _show(ledger.run(arguments.name), terminal)
    if arguments.dry_run:
        return _dry_run(arguments.what, arguments.name, settings, terminal)
    return carry_out(arguments.what, arguments.name, settings, ledger, terminal)


def carry_out(kind: str, key: str, settings: Settings, ledger: TicketLedger, terminal: Terminal) -> int:
    """Carry out a run; one of the same ticket that was interrupted is taken up again in place of a new one."""
    from aop.adapters.engine.durable import DurableEngine
    from aop.adapters.supervisor_lease import held_lease
    from aop.core.run import FIRST_PRIORITY, Kind, RunBroke

    with held_lease(ledger.folder / f"{kind}.lease"), _desk(settings, ledger, kind) as desk:
        payload = None
        if not ledger.unfinished(kind, key):
            payload = msgspec.to_builtins(asyncio.run(desk.tracker.get_ticket(key)))
        run_id, payload = ledger.opened(kind, key, timestamp(desk.clock.now()), payload)
        terminal.say(f"Run {run_id}; if it is interrupted, the same command goes on with it.")
        engine = DurableEngine(ledger.folder / f"{kind}.engine.db")
        engine.start({kind: Kind(pipeline=_pipeline(kind)(desk))})
        try:
            engine.submit(kind, payload, key=run_id, priority=FIRST_PRIORITY)
            ending: Any = engine.result(run_id)
        except RunBroke as broken:
            ledger.ended(run_id, timestamp(desk.clock.now()), BROKEN)
            raise Fault(str(broken)) from broken
        finally:
            engine.close()
    return _ended(run_id, ending, terminal)


def _pipeline(kind: str) -> Callable[[Desk], Pipeline]:
    if kind == "scaffold":
        from aop.tickets.scaffolder import ScaffolderAgent

        return lambda desk: ScaffolderAgent(desk).scaffold
    from aop.tickets.reviewer import CodeReviewerAgent

    return lambda desk: CodeReviewerAgent(desk).review


def _desk(settings: Settings, ledger: Ledger, kind: str) -> AbstractContextManager[Desk]:
    from aop.adapters.outbound.assembly import ticket_desk

    brain = build_brain(settings, product=PRODUCTS[kind])
    return ticket_desk(settings.environ, PRODUCTS[kind], brain, ledger, Redactor(settings.secrets))


def _dry_run(kind: str, key: str, settings: Settings, terminal: Terminal) -> int:
    from aop.tickets.dry_run import DirectRun, DryTracker, DryVcs, ForgetfulLedger

    writes: list[Mapping[str, Json]] = []
    with _desk(settings, ForgetfulLedger(), kind) as desk:
        dry = msgspec.structs.replace(
            desk, tracker=DryTracker(desk.tracker, writes.append), vcs=DryVcs(desk.vcs, writes.append)
        )

        async def play() -> Any:
            ticket = await desk.tracker.get_ticket(key)
            return await _pipeline(kind)(dry)(DirectRun(), msgspec.to_builtins(ticket))

        ending = asyncio.run(play())
    shown: list[Json] = [*writes]
    if terminal.json:
        terminal.object({"ok": True, "data": {"dry_run": True, "outcome": ending["outcome"], "writes": shown}})
    else:
        terminal.text("\n".join(["Nothing was written. A real run would:", *map(_write_line, writes)]))
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
        lines = [f"{each['run_id']:<28} {each['state']:<14} {each['began']}" for each in runs]
        terminal.text("\n".join(map(visible, lines)) or "No ticket was worked on yet.")
    return Exit.OK


def _show(found: Mapping[str, Any], terminal: Terminal) -> int:
    if terminal.json:
        terminal.object({"ok": True, "data": found})
        return Exit.OK
    lines = [f"{found['run_id']}: {found['state']}, began {found['began']}, ended {found['ended'] or 'not yet'}"]
    for step in found["steps"]:
        text = msgspec.json.encode(step["outcome"]).decode()
        lines.append(f"  {step['at']}  {step['name']:<24}{text[:400]}")
    terminal.text("\n".join(map(visible, lines)))
    return Exit.OK


def _write_line(write: Mapping[str, Json]) -> str:
    facts = {name: value for name, value in write.items() if name != "operation"}
    return visible(f"  {write['operation']}: {msgspec.json.encode(facts).decode()[:2000]}")
