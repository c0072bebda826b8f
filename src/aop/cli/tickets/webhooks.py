"""The webhooks of `aop serve`, and the work that they ask for, for as long as it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from starlette.routing import Route

from aop.adapters.machine.clock import SystemClock
from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.setup.webhook_settings import webhook_settings
from aop.adapters.tickets.workers import TicketWorkers
from aop.cli.tickets.ticket import LEDGER
from aop.core.clock import timestamp
from aop.core.redaction.redactor import Redactor
from aop.web.webhooks import PATHS, WebhookIntake, webhook_routes
from aop.wiring.build import Settings, build_ticket_desk, make_ready_for_threads


@contextmanager
def served_webhooks(root: Path, settings: Settings, log: Callable[[str], None]) -> Iterator[list[Route]]:
    """Have the endpoints, and workers behind them; without a secret they are disabled, and nobody works.

    Raises: TicketSettingMissing.
    """
    wanted = webhook_settings(settings.environ)
    if not wanted.secret:
        yield webhook_routes(None)
        return
    redact = Redactor(settings.secrets)
    ledger = TicketLedger(root / LEDGER)
    workers = TicketWorkers(
        ledger,
        partial(build_ticket_desk, settings, ledger),
        at_once=wanted.at_once,
        log=lambda line: log(f"aop: {redact(line)}"),
    )
    for kind, refusal in workers.refusals.items():
        log(f"aop: {PATHS[kind]} takes nothing: {redact(refusal.message)} [{refusal.code}]")
    clock = SystemClock()
    intake = WebhookIntake(
        secret=wanted.secret,
        rules=wanted.rules,
        ledger=ledger,
        most_waiting=wanted.most_waiting,
        refusals=workers.refusals,
        submit=workers.submit,
        now=lambda: timestamp(clock.now()),
    )
    make_ready_for_threads()
    with ledger.held_open():
        workers.start()
        try:
            yield webhook_routes(intake)
        finally:
            workers.close()
