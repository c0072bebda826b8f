"""Runner of ticket runs: takes a new or interrupted run to its end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aop.core.clock import timestamp
from aop.core.errors import Fault, Json, Refusal, TicketRunBusy
from aop.core.ids import RunId
from aop.core.redaction.redactor import mask_json
from aop.tickets.ports import Ticket
from aop.tickets.runs.storage import BROKEN, FAILED, RunLedger, StoredRun, StoredRuns
from aop.tickets.steps import Desk, Ending, TicketPipeline

PRODUCTS: Mapping[str, str] = {"scaffold": "scaffolding", "review": "code-review"}
"""The kinds of work, and the product whose model settings each uses."""
READ = "read_ticket"


def pipeline_of(kind: str, desk: Desk) -> TicketPipeline:
    """Return the pipeline that does a kind of work."""
    if kind == "scaffold":
        from aop.tickets.scaffold.pipeline import ScaffolderAgent

        return ScaffolderAgent(desk).scaffold
    from aop.tickets.review.pipeline import CodeReviewerAgent

    return CodeReviewerAgent(desk).review


def remove_ended(ledger: RunLedger, runs: StoredRuns) -> None:
    """Delete the steps of ended runs, which a process leaves if it is killed between the end and the cleanup."""
    for run_id in runs.ids():
        if not ledger.is_active(run_id):
            runs.remove(run_id)


class TicketRunner:
    """Carries out runs of one kind of work."""

    def __init__(self, kind: str, desk: Desk, ledger: RunLedger, runs: StoredRuns) -> None:
        self.kind = kind
        self._desk = desk
        self._ledger = ledger
        self._runs = runs
        self._pipeline = pipeline_of(kind, desk)

    async def start(self, key: str) -> tuple[RunId, Ticket | None]:
        """Return the interrupted run of a ticket, or a new one with the ticket. Raises: the tracker's refusal."""
        remove_ended(self._ledger, self._runs)
        interrupted = self._ledger.has_active_run(self.kind, key)
        ticket = None if interrupted else await self._desk.tracker.get_ticket(key)
        return self._ledger.open_run(self.kind, key, self._now()), ticket

    async def carry_out(self, run_id: RunId, key: str, ticket: Ticket | None = None) -> Ending:
        """Take a run to its end, with the ticket as it was at the beginning. Raises: TicketRunBusy, Refusal, Fault."""
        with self._runs.lock(run_id) as run:
            if not self._ledger.is_active(run_id):
                run.forget()
                raise TicketRunBusy(f"Another process has just ended `{run_id}`.", run=run_id)
            ending = await self._ending_of(run, key, ticket)
            run.forget()
            return ending

    async def _ending_of(self, run: StoredRun, key: str, ticket: Ticket | None) -> Ending:
        async def read() -> Json:
            found = ticket or await self._desk.tracker.get_ticket(key)
            return mask_json(msgspec.to_builtins(found), self._desk.redact.mask_secrets)

        try:
            payload = await run.step(READ, read)
            self._ledger.record_ticket(run.run_id, mask_json(payload, self._desk.redact))
            return await self._pipeline(run, payload)
        except Refusal as refusal:
            self._end_unread(run, refusal)
            raise
        except OSError as error:
            why = type(error.__cause__ or error).__name__
            raise Fault(f"The progress of `{run.run_id}` could not be stored ({why}). Start it again.") from error
        except Exception as error:
            self._ledger.record_end(run.run_id, self._now(), BROKEN)
            run.forget()
            raise Fault(f"The run `{run.run_id}` broke: {type(error).__name__}.") from error

    def _end_unread(self, run: StoredRun, refusal: Refusal) -> None:
        """End a run whose ticket could not be read, with the reason in the ledger."""
        error: Json = mask_json(msgspec.to_builtins(refusal.as_error()), self._desk.redact)
        self._ledger.record_step(run.run_id, READ, self._now(), {"error": error})
        self._ledger.record_end(run.run_id, self._now(), FAILED)
        run.forget()

    def _now(self) -> str:
        return timestamp(self._desk.clock.now())
