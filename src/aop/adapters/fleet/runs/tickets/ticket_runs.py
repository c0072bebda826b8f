"""Ticket runs of a worker, carried out with the settings of its machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.fleet.runs.run_context import RunContext
from aop.adapters.fleet.runs.tickets.engine_run import EngineRuns, Fence
from aop.adapters.fleet.runs.tickets.platform_ledger import PlatformLedger
from aop.adapters.machine.clock import SystemClock
from aop.core.clock import timestamp
from aop.core.errors import Fault, Json, Refusal
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor, mask_json
from aop.tickets.runs.runner import READ, TicketRunner
from aop.tickets.runs.storage import BROKEN, FAILED, RunLedger
from aop.tickets.steps import Desk, Ending

OpenDesk = Callable[[RunLedger, str, Callable[[], bool]], AbstractContextManager[Desk]]
"""Opens the desk of a kind of work, with a ledger, and what tells that this worker is cut off."""


class TicketPayload(Struct, frozen=True, kw_only=True):
    """A run of the queue `tickets`: only names, because its settings and keys are those of the worker."""

    kind: str
    ticket: str
    run_id: str


class TicketRuns:
    """Carries out the ticket runs of one worker."""

    def __init__(self, context: RunContext, ledger: PlatformLedger, open_desk: OpenDesk, redact: Redactor) -> None:
        self._context = context
        self._ledger = ledger
        self._open_desk = open_desk
        self._redact = redact

    def perform(self, _run: str, payload: Mapping[str, Json]) -> Mapping[str, Json]:
        """Carry out a run, or go on where a dead worker left it; the ledger has the answer."""
        ordered = msgspec.convert(payload, TicketPayload)
        run_id = RunId(ordered.run_id)
        if self._ledger.is_active(run_id):
            answer = self._answer(run_id, ordered)
            self._ledger.record_answer(run_id, mask_json(answer, self._redact))
        return {}

    def _answer(self, run_id: RunId, ordered: TicketPayload) -> dict[str, Any]:
        fence = Fence(self._context.liveness.is_cut_off)
        try:
            with self._open_desk(self._ledger, ordered.kind, fence) as desk:
                runner = TicketRunner(ordered.kind, desk, self._ledger, EngineRuns(fence, self._has_secret))
                ending = asyncio.run(_apart(runner.carry_out(run_id, ordered.ticket)))
            self._context.say(f"{run_id}: {ending['outcome']}")
            return {"ending": msgspec.to_builtins(ending)}
        except Refusal as refusal:
            error = msgspec.to_builtins(refusal.as_error())
            self._end(run_id, error)
            return {"error": error}
        except Fault as fault:
            self._context.say(f"{run_id}: {self._redact(str(fault))}")
            # Also one whose progress could not be stored: the next command begins a new run, which finds the marks.
            self._ledger.record_end(run_id, timestamp(SystemClock().now()), BROKEN)
            return {"broke": str(fault)}

    def _end(self, run_id: RunId, error: Json) -> None:
        """End a run that could not begin here; one that has ended stays as it is."""
        now = timestamp(SystemClock().now())
        self._ledger.record_step(run_id, READ, now, {"error": mask_json(error, self._redact)})
        self._ledger.record_end(run_id, now, FAILED)

    def _has_secret(self, outcome: Json) -> bool:
        return mask_json(outcome, self._redact.mask_secrets) != outcome


async def _apart(work: Awaitable[Ending]) -> Ending:
    """Await work in a loop of its own, which ends without the threads of DBOS."""
    try:
        return await work
    finally:
        # At its first step DBOS makes its own threads those of this loop, which would wait for them, and so for itself.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
