"""`aop ticket scaffold`, killed after the effect of a step and before its record."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from aop.adapters.tickets.ledger import TicketLedger
from aop.cli.shell.terminal import Terminal
from aop.cli.tickets.ticket import carry_out
from aop.core.errors import Json
from aop.core.ids import RunId
from aop.wiring.build import Settings


class KillingLedger(TicketLedger):
    """Kills this process before it hears of a step."""

    def __init__(self, path: Path, step: str) -> None:
        super().__init__(path)
        self._step = step

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        if name == self._step:
            os.kill(os.getpid(), signal.SIGKILL)
        super().record_step(run_id, name, at, outcome)


if __name__ == "__main__":
    ledger = KillingLedger(Path(".aop/tickets/ledger.db").absolute(), sys.argv[1])
    sys.exit(carry_out("scaffold", sys.argv[2], Settings.from_env(os.environ), ledger, Terminal(json=True)))
