"""Webhooks of `aop serve`, with the runners or workers behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import Route

from aop.adapters.fleet.runs.tickets.chosen_queue import ticket_queue
from aop.adapters.fleet.runs.tickets.ticket_service import NO_SERVICE
from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.adapters.tickets.loop_thread import BackgroundLoop
from aop.adapters.tickets.setup.settings import WebhookSettings, webhook_settings
from aop.core.clock import timestamp
from aop.core.redaction.redactor import Redactor
from aop.tickets.mission.keys import project_of
from aop.tickets.runs.pool import RunnerPool
from aop.web.webhooks import PATHS, DeliveryRuns, WebhookIntake, webhook_routes
from aop.wiring.build import Settings, make_ready_for_threads
from aop.wiring.models import build_ticket_desk

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue


@contextmanager
def served_webhooks(root: Path, settings: Settings, log: Callable[[str], None]) -> Iterator[list[Route]]:
    """Yield the endpoints, disabled without a secret; runs go to workers of their project that live now, or stay here.

    Raises: TicketSettingMissing, DatabaseUnavailable.
    """
    wanted = webhook_settings(settings.environ)
    if not wanted.secret:
        yield webhook_routes(None)
        return
    projects = frozenset[str]().union(*(rules.projects for rules in wanted.rules.values()))
    queue, clock = ticket_queue(settings.environ), SystemClock()
    service = NO_SERVICE if queue is None else queue.service()
    runs: dict[bool, DeliveryRuns] = {}
    with ExitStack() as opened:
        if queue is not None and service.serves_any(projects):
            runs[True] = opened.enter_context(_queued_runs(queue))
            rest = "" if service.serves_all(projects) else ", except those of projects without a live worker"
            log(f"aop: Ticket runs of webhooks are carried out by the workers of the platform{rest}.")
        if not service.serves_all(projects):
            runs[False] = opened.enter_context(_own_runs(root, settings, wanted, log))
        intake = WebhookIntake(
            secret=wanted.secret,
            rules=wanted.rules,
            most_waiting=wanted.most_waiting,
            # As it was at the start: deliveries of a project are all in one ledger.
            runs_of=lambda key: runs[service.serves(project_of(key))],
            now=lambda: timestamp(clock.now()),
        )
        yield webhook_routes(intake)


@contextmanager
def _queued_runs(queue: TicketQueue) -> Iterator[DeliveryRuns]:
    """Yield the runs of the platform; those that a server stored and did not live to queue are queued now."""
    make_ready_for_threads()
    with queue:
        for kind, key, run_id in queue.ledger.active():
            queue.submit(kind, run_id, key)
        yield DeliveryRuns(ledger=queue.ledger, submit=queue.submit, refusals={})


@contextmanager
def _own_runs(
    root: Path, settings: Settings, wanted: WebhookSettings, log: Callable[[str], None]
) -> Iterator[DeliveryRuns]:
    """Yield the runs of this repository, with runners in this process."""
    redact = Redactor(settings.secrets)
    ledger = TicketLedger(root / LEDGER)
    pool = RunnerPool(
        ledger,
        RunFiles(ledger.working_folder),
        partial(build_ticket_desk, settings, ledger),
        BackgroundLoop(),
        at_once=wanted.at_once,
        log=lambda line: log(f"aop: {redact(line)}"),
    )
    for kind, refusal in pool.refusals.items():
        log(f"aop: {PATHS[kind]} is disabled: {redact(refusal.message)} [{refusal.code}]")
    make_ready_for_threads()
    with ledger.held_open():
        pool.start()
        try:
            yield DeliveryRuns(ledger=ledger, submit=pool.submit, refusals=pool.refusals)
        finally:
            pool.close()
