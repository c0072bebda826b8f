"""Webhooks of `aop serve`, with the runners or workers behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.routing import Route

from aop.adapters.fleet.runs.tickets.chosen_queue import ticket_queue
from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.adapters.tickets.loop_thread import BackgroundLoop
from aop.adapters.tickets.setup.settings import WebhookSettings, webhook_settings
from aop.core.clock import timestamp
from aop.core.errors import Refusal
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor
from aop.tickets.runs.pool import RunnerPool
from aop.tickets.runs.storage import RunLedger
from aop.web.webhooks import PATHS, WebhookIntake, webhook_routes
from aop.wiring.build import Settings, make_ready_for_threads
from aop.wiring.models import build_ticket_desk

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.adapters.fleet.runs.tickets.ticket_queue import TicketQueue


class _Runs(Struct, frozen=True, kw_only=True):
    """The runs that deliveries begin: where they are stored, and what carries them out."""

    ledger: RunLedger
    submit: Callable[[str, RunId, str], None]
    refusals: Mapping[str, Refusal]


@contextmanager
def served_webhooks(root: Path, settings: Settings, log: Callable[[str], None]) -> Iterator[list[Route]]:
    """Yield the endpoints, disabled without a secret; runs go to workers, if one lives now, or to runners here.

    Raises: TicketSettingMissing, DatabaseUnavailable.
    """
    wanted = webhook_settings(settings.environ)
    if not wanted.secret:
        yield webhook_routes(None)
        return
    queue = ticket_queue(settings.environ)
    is_shared = queue is not None and queue.is_served()
    runs_of = _queued_runs(queue, log) if queue and is_shared else _own_runs(root, settings, wanted, log)
    clock = SystemClock()
    with runs_of as runs:
        intake = WebhookIntake(
            secret=wanted.secret,
            rules=wanted.rules,
            ledger=runs.ledger,
            most_waiting=wanted.most_waiting,
            refusals=runs.refusals,
            submit=runs.submit,
            now=lambda: timestamp(clock.now()),
        )
        yield webhook_routes(intake)


@contextmanager
def _queued_runs(queue: TicketQueue, log: Callable[[str], None]) -> Iterator[_Runs]:
    """Yield the runs of the platform; those that a server stored and did not live to queue are queued now."""
    log("aop: Ticket runs of webhooks are carried out by the workers of the platform.")
    make_ready_for_threads()
    with queue:
        for kind, key, run_id in queue.ledger.active():
            queue.submit(kind, run_id, key)
        yield _Runs(ledger=queue.ledger, submit=queue.submit, refusals={})


@contextmanager
def _own_runs(root: Path, settings: Settings, wanted: WebhookSettings, log: Callable[[str], None]) -> Iterator[_Runs]:
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
            yield _Runs(ledger=ledger, submit=pool.submit, refusals=pool.refusals)
        finally:
            pool.close()
