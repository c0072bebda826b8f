"""`aop worker`: take gate runs and turns of other machines, or let a worker end."""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aop.adapters.machine.agent_signs import sign_of_agent
from aop.cli.shell.exits import Exit
from aop.cli.shell.mcp_server import serve_mcp
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, PersonRequired, Refusal, WorkerVersion

if TYPE_CHECKING:  # it brings DBOS along
    from aop.adapters.fleet.runs.run_context import RunContext, RunKind
    from aop.adapters.fleet.worker_engine import Perform

CACHE = "aop/worker"
MOST_PLACES = 256


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("start", "drain"), nargs="?", default="start", help="default: start")
    parser.add_argument("worker", nargs="?", metavar="ID", help="drain: the worker, as `aop workers` lists it")
    parser.add_argument("--queues", default="gates", metavar="NAMES", help="what to take, by commas (default: gates)")
    parser.add_argument("--places", type=int, default=1, metavar="N", help="how many at once (default: 1)")
    parser.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="shown by `aop workers`; may be repeated"
    )
    parser.add_argument("--cache", metavar="DIR", help=f"its clones (default: ~/.cache/{CACHE})")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Work until a signal or a drain, or let another worker drain."""
    if sign := sign_of_agent(os.environ):
        raise PersonRequired(f"`aop worker` is for a person, and {sign}.", sign=sign)
    if arguments.action == "drain":
        return _drain(arguments.worker, terminal)
    return _work(arguments, terminal)


def _drain(worker: str | None, terminal: Terminal) -> int:
    from aop.adapters.fleet.connections import platform_address
    from aop.adapters.fleet.platform import Platform

    if not worker:
        raise InvalidCliArgs("`aop worker drain` needs the id of a worker.", hint="List them: aop workers")
    with Platform(platform_address(os.environ)) as platform:
        platform.check()
        platform.drain(worker)
    return terminal.done({"worker": worker}, f"{worker} ends when its current runs have ended.")


def _work(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.fleet.platform_shape import LEADS, QUEUES, TICKETS, queued_kind
    from aop.adapters.fleet.worker import Worker, WorkerOptions
    from aop.wiring.build import make_ready_for_threads

    queues = tuple(dict.fromkeys(arguments.queues.split(",")))
    known = (*QUEUES, LEADS)
    unknown = [name for name in queues if name not in known and not _is_project_queue(name)]
    if unknown:
        raise InvalidCliArgs(f"There is no queue `{unknown[0]}`.", hint=f"There is: {', '.join(known)}")
    if not 1 <= arguments.places <= MOST_PLACES:
        raise InvalidCliArgs(f"A worker has 1 to {MOST_PLACES} places, not {arguments.places}.")
    options = WorkerOptions(
        queues=queues, places=arguments.places, labels=_labels(arguments.label), cache=_cache(arguments.cache)
    )
    if TICKETS in map(queued_kind, queues):
        _check_ticket_settings(terminal)
    make_ready_for_threads()
    worker = Worker(os.environ, options, _kinds(queues), terminal.say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_told: worker.end())
    worker.run()
    if worker.liveness.platform_runs is not None:
        raise WorkerVersion(worker.liveness.runs, worker.liveness.platform_runs)
    return Exit.OK


def _kinds(queues: tuple[str, ...]) -> dict[str, RunKind]:
    """Return the kinds of runs that the queues hold, by name."""
    from aop.adapters.fleet.platform_shape import queued_kind

    of_queue: dict[str, tuple[str, RunKind]] = {
        "gates": ("gate", _gate_runs),
        "agents": ("turn", _turn_runs),
        "tickets": ("ticket", _ticket_runs),
    }
    return dict(of_queue[name] for name in map(queued_kind, queues) if name in of_queue)


def _is_project_queue(name: str) -> bool:
    """Tell whether a queue can be one for the tickets of a project; whether it exists, the database knows."""
    from aop.adapters.fleet.platform_shape import project_queue
    from aop.tickets.mission.keys import is_project_key

    project = name.rpartition("/")[2]
    return name == project_queue(project) and is_project_key(project)


def _gate_runs(context: RunContext) -> Perform:
    from aop.adapters.fleet.runs.gate_runs import GateRuns
    from aop.wiring.build import Settings, worker_call

    settings = Settings.from_env(context.environ, secrets=context.secrets)
    return GateRuns(context, partial(worker_call, settings, report=context.say)).perform


def _turn_runs(context: RunContext) -> Perform:
    # Some are imported to be made ready: two threads that first use a shape at once crash msgspec.
    from aop.adapters.agents.orders import relayed_tools, turn_orders  # noqa: F401
    from aop.adapters.fleet.runs.turn_runs import TurnRuns
    from aop.mcpserver import in_background  # noqa: F401
    from aop.mcpserver.tool_listing import mcp_tool
    from aop.wiring.agents import take_turn
    from aop.wiring.build import Settings, make_ready_for_threads
    from aop.wiring.catalogue import CATALOGUE

    make_ready_for_threads()
    for tool in CATALOGUE.values():
        # A schema is made from sources, which two threads of Python 3.11 cannot parse at the same moment.
        if not tool.person_only:
            mcp_tool(tool)
    settings = Settings.from_env(context.environ, secrets=context.secrets)
    return TurnRuns(context, partial(take_turn, settings=settings, serve=serve_mcp)).perform


def _check_ticket_settings(terminal: Terminal) -> None:
    """Say which ticket work cannot be done here. Raises: TicketSettingMissing, TicketProviderUnsupported if all."""
    from aop.adapters.tickets.setup.settings import ticket_settings
    from aop.tickets.runs.runner import PRODUCTS

    refusals: dict[str, Refusal] = {}
    for kind, product in PRODUCTS.items():
        try:
            ticket_settings(os.environ, product)
        except Refusal as refusal:
            refusals[kind] = refusal
    for kind, missing in refusals.items():
        if len(refusals) == len(PRODUCTS):
            raise missing
        terminal.say(f"aop: Each {kind} will be refused here: {missing.message} [{missing.code}]")


def _ticket_runs(context: RunContext) -> Perform:
    from aop.adapters.fleet.runs.tickets.platform_ledger import PlatformLedger
    from aop.adapters.fleet.runs.tickets.ticket_runs import TicketRuns
    from aop.adapters.tickets.setup import assembly  # noqa: F401 - imported to be made ready
    from aop.core.redaction.redactor import Redactor
    from aop.tickets.review import pipeline as review  # noqa: F401
    from aop.tickets.scaffold import pipeline as scaffold  # noqa: F401
    from aop.wiring.build import Settings, make_ready_for_threads
    from aop.wiring.models import build_ticket_desk

    make_ready_for_threads()
    settings = Settings.from_env(context.environ, secrets=context.secrets)
    ledger = PlatformLedger(context.engine.transaction, is_patient=True)
    return TicketRuns(context, ledger, partial(build_ticket_desk, settings), Redactor(settings.secrets)).perform


def _labels(words: list[str]) -> dict[str, str]:
    labels = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InvalidCliArgs(f"`--label {word}` is not KEY=VALUE.")
        labels[name] = value
    return labels


def _cache(named: str | None) -> Path:
    return Path(named or f"~/.cache/{CACHE}").expanduser().absolute()
