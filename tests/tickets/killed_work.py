"""Work on a ticket of LOCAL, killed after the effect of a step and before its record.

Arguments: the way of working, the folder of LOCAL, and the step; without a step it works to the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from aop.adapters.machine.clock import SystemClock
from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.setup.assembly import ticket_desk
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Price, Prices
from aop.core.errors import Json
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor
from aop.testing.scripted_model import NAME
from aop.tickets.runs.runner import PRODUCTS, TicketRunner
from tests.tickets.local_worlds import KEY, PAGE
from tests.tickets.shaken_worlds import WAYS, DiligentModel


class KillingLedger(TicketLedger):
    """Kills this process before it hears of a step."""

    def __init__(self, path: Path, step: str) -> None:
        super().__init__(path)
        self._step = step

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        if name == self._step:
            os.kill(os.getpid(), signal.SIGKILL)
        super().record_step(run_id, name, at, outcome)


def main(name: str, folder: Path, step: str) -> None:
    """Work, and print the outcome."""
    way = WAYS[name]
    ledger = KillingLedger(folder / "ledger" / "ledger.db", step)
    prices = Prices({NAME: Price(input=1.0, output=1.0)})
    brain = ModelBrain(DiligentModel(way), prices, SystemClock(), Redactor(), CallLimits())
    environ = {
        "PATH": os.environ["PATH"],
        "VCS_PROVIDER": "LOCAL",
        "TRACKER_PROVIDER": "LOCAL",
        "KNOWLEDGE_PROVIDER": "LOCAL",
        "AOP_LOCAL_FOLDER": str(folder),
        "WORKFLOW_STATE_INITIAL": "To Do",
        "WORKFLOW_STATE_SUCCESS": "In Review",
        "ARCHITECTURE_DOC_PAGE_ID": PAGE,
    }
    with ticket_desk(environ, PRODUCTS[way.kind], brain, ledger, Redactor()) as desk:

        async def work() -> str:
            runner = TicketRunner(way.kind, desk, ledger, RunFiles(ledger.working_folder))
            run_id, ticket = await runner.start(KEY)
            return str((await runner.carry_out(run_id, KEY, ticket))["outcome"])

        sys.stdout.write(asyncio.run(work()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
