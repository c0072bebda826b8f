"""A worker for tickets whose model is scripted, and which gets a signal after the effect of a step, before its record.

Arguments: the way of working, the folder of LOCAL, the step, and the number of the signal.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.fleet.runs.run_context import RunContext
from aop.adapters.fleet.runs.tickets.platform_ledger import PlatformLedger
from aop.adapters.fleet.runs.tickets.ticket_runs import TicketRuns
from aop.adapters.fleet.worker import Worker, WorkerOptions
from aop.adapters.fleet.worker_engine import Perform
from aop.adapters.machine.clock import SystemClock
from aop.adapters.tickets.setup.assembly import ticket_desk
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Price, Prices
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor
from aop.testing.scripted_model import NAME
from aop.tickets.runs.runner import PRODUCTS
from aop.tickets.runs.storage import RunLedger
from aop.tickets.steps import Desk
from tests.tickets.shaken_worlds import WAYS, DiligentModel


class SignallingLedger(PlatformLedger):
    """Sends this process a signal before it hears of a step."""

    def __init__(self, context: RunContext, step: str, number: int) -> None:
        super().__init__(context.engine.transaction, is_patient=True)
        self._step = step
        self._number = number

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        if name == self._step:
            os.kill(os.getpid(), self._number)
        super().record_step(run_id, name, at, outcome)


def main(name: str, local: Path, step: str, number: int) -> None:
    """Work until a signal ends it."""
    way = WAYS[name]
    prices = Prices({NAME: Price(input=1.0, output=1.0)})
    brain = ModelBrain(DiligentModel(way), prices, SystemClock(), Redactor(), CallLimits())
    settings = {**os.environ, "AOP_LOCAL_FOLDER": str(local)}

    @contextmanager
    def open_desk(ledger: RunLedger, kind: str, is_cut_off: Callable[[], bool]) -> Iterator[Desk]:
        with ticket_desk(settings, PRODUCTS[kind], brain, ledger, Redactor(), is_cut_off=is_cut_off) as desk:
            yield desk

    def ticket_runs(context: RunContext) -> Perform:
        return TicketRuns(context, SignallingLedger(context, step, number), open_desk, Redactor()).perform

    options = WorkerOptions(queues=("tickets",), places=1, labels={"name": step}, cache=Path.home() / "cache")
    worker = Worker(os.environ, options, {"ticket": ticket_runs}, Terminal(json=False).say)
    signal.signal(signal.SIGTERM, lambda *_told: worker.end())
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
