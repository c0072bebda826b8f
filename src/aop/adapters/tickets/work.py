"""Works on runs of tickets, one to its end; whoever asked for it, and wherever an earlier process left it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from aop.adapters.tickets.ledger import BROKEN, TicketLedger
from aop.adapters.tickets.run_files import FileRun, forget_run, kept_runs, taken_up
from aop.core.clock import timestamp
from aop.core.errors import Fault, Json, Refusal, TicketRunBusy
from aop.core.ids import RunId
from aop.core.redaction.redactor import masked
from aop.tickets.ports import Ticket
from aop.tickets.steps import Desk, TicketPipeline

PRODUCTS: Mapping[str, str] = {"scaffold": "scaffolding", "review": "code-review"}
"""The work that can be asked for, and the product whose models do it."""
READ = "read_ticket"


def pipeline_of(kind: str) -> Callable[[Desk], TicketPipeline]:
    """Return what does a kind of work at a desk."""
    if kind == "scaffold":
        from aop.tickets.scaffold.pipeline import ScaffolderAgent

        return lambda desk: ScaffolderAgent(desk).scaffold
    from aop.tickets.review.pipeline import CodeReviewerAgent

    return lambda desk: CodeReviewerAgent(desk).review


def sweep(ledger: TicketLedger) -> None:
    """Remove what a process that was killed in its last moment kept of runs that have ended."""
    for kept in kept_runs(ledger.working_folder):
        if not ledger.is_active(kept):
            forget_run(ledger.working_folder, kept)


class TicketWork:
    """One kind of work, at one desk."""

    def __init__(self, kind: str, desk: Desk, ledger: TicketLedger) -> None:
        self.kind = kind
        self._desk = desk
        self._ledger = ledger
        self._pipeline = pipeline_of(kind)(desk)

    async def started(self, key: str) -> tuple[RunId, Ticket | None]:
        """Return the run of a ticket that was interrupted; else a new one, with the ticket.

        Raises: RemoteNotFound, RemoteRejected, RemoteUnavailable: then there is no run.
        """
        sweep(self._ledger)
        ticket = None if self._ledger.unfinished(self.kind, key) else await self._desk.tracker.get_ticket(key)
        return self._ledger.opened(self.kind, key, self._now()), ticket

    async def carried_out(self, run_id: RunId, key: str, ticket: Ticket | None = None) -> Mapping[str, Any]:
        """Take a run to its end, from the ticket as it is when the run begins.

        Raises: TicketRunBusy; what the tracker refuses if it cannot be read; Fault.
        """
        with taken_up(self._ledger.working_folder, run_id) as run:
            if not self._ledger.is_active(run_id):
                run.forget()
                raise TicketRunBusy(f"Another process has just ended `{run_id}`.", run=run_id)
            ending = await self._performed(run, key, ticket)
            run.forget()
            return ending

    async def _performed(self, run: FileRun, key: str, ticket: Ticket | None) -> Mapping[str, Any]:
        async def read() -> Json:
            found = ticket or await self._desk.tracker.get_ticket(key)
            return masked(msgspec.to_builtins(found), self._desk.redact.mask_secrets)

        try:
            payload = await run.step(READ, read)
            self._ledger.took(run.run_id, masked(payload, self._desk.redact))
            ending: Any = await self._pipeline(run, payload)
        except Refusal as refusal:
            self._unreadable(run, refusal)
            raise
        except (OSError, sqlite3.Error) as error:
            raise Fault(
                f"What `{run.run_id}` did could not be kept ({type(error).__name__}); another start goes on with it."
            ) from error
        except Exception as error:
            self._ledger.ended(run.run_id, self._now(), BROKEN)
            run.forget()
            raise Fault(f"The run `{run.run_id}` broke: {type(error).__name__}.") from error
        told: Mapping[str, Any] = ending
        return told

    def _unreadable(self, run: FileRun, refusal: Refusal) -> None:
        """Keep that the ticket could not even be read, which nobody can tell the ticket."""
        error: Json = masked(msgspec.to_builtins(refusal.as_error()), self._desk.redact)
        self._ledger.step_done(run.run_id, READ, self._now(), {"error": error})
        self._ledger.ended(run.run_id, self._now(), "failed")
        run.forget()

    def _now(self) -> str:
        return timestamp(self._desk.clock.now())
