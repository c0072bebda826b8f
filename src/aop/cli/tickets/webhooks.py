"""Webhooks of `aop serve`, with the runners behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from starlette.routing import Route

from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.adapters.tickets.loop_thread import BackgroundLoop
from aop.adapters.tickets.setup.settings import webhook_settings
from aop.core.clock import timestamp
from aop.core.redaction.redactor import Redactor
from aop.tickets.runs.pool import RunnerPool
from aop.web.webhooks import PATHS, WebhookIntake, webhook_routes
from aop.wiring.build import Settings, make_ready_for_threads
from aop.wiring.models import build_ticket_desk


@contextmanager
def served_webhooks(root: Path, settings: Settings, log: Callable[[str], None]) -> Iterator[list[Route]]:
    """Run the runners, and yield the endpoints, disabled without a secret. Raises: TicketSettingMissing."""
    wanted = webhook_settings(settings.environ)
    if not wanted.secret:
        yield webhook_routes(None)
        return
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
    clock = SystemClock()
    intake = WebhookIntake(
        secret=wanted.secret,
        rules=wanted.rules,
        ledger=ledger,
        most_waiting=wanted.most_waiting,
        refusals=pool.refusals,
        submit=pool.submit,
        now=lambda: timestamp(clock.now()),
    )
    make_ready_for_threads()
    with ledger.held_open():
        pool.start()
        try:
            yield webhook_routes(intake)
        finally:
            pool.close()
