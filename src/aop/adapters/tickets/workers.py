"""Works on many runs of tickets in the background, so many of a kind at once; what waits, waits in the ledger."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack

from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.work import PRODUCTS, TicketWork, sweep
from aop.core.errors import Fault, Refusal
from aop.core.ids import RunId
from aop.tickets.steps import Desk


class TicketWorkers:
    """A thread with an event loop of its own. Runs that a dead process left are taken up at the start."""

    def __init__(
        self,
        ledger: TicketLedger,
        open_desk: Callable[[str], AbstractContextManager[Desk]],
        *,
        at_once: int,
        log: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._at_once = at_once
        self._log = log
        self._desks = ExitStack()
        self._works: dict[str, TicketWork] = {}
        self._refusals: dict[str, Refusal] = {}
        for kind in PRODUCTS:
            try:
                self._works[kind] = TicketWork(kind, self._desks.enter_context(open_desk(kind)), ledger)
            except Refusal as refusal:
                self._refusals[kind] = refusal
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tickets", daemon=True)
        self._waiting: Mapping[str, asyncio.Queue[tuple[RunId, str]]] = {kind: asyncio.Queue() for kind in self._works}
        self._known: set[RunId] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def refusals(self) -> Mapping[str, Refusal]:
        """Return why a kind of work cannot be done here."""
        return self._refusals

    def start(self) -> None:
        """Begin, with what an earlier process left."""
        sweep(self._ledger)
        self._thread.start()
        self._loop.call_soon_threadsafe(self._start_tasks)
        for kind, key, run_id in self._ledger.active():
            self.submit(kind, run_id, key)

    def submit(self, kind: str, run_id: RunId, key: str) -> None:
        """Have a run worked on, unless it waits already; from any thread."""
        if kind in self._works:
            self._loop.call_soon_threadsafe(self._put, kind, run_id, key)

    def close(self) -> None:
        """Stop in the middle: the next start goes on from the last finished step."""
        asyncio.run_coroutine_threadsafe(self._cancelled(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._desks.close()

    # --- within the loop -----------------------------------------------------------------------------

    def _start_tasks(self) -> None:
        self._tasks = [self._loop.create_task(self._work(kind)) for kind in self._works for _ in range(self._at_once)]

    def _put(self, kind: str, run_id: RunId, key: str) -> None:
        if run_id not in self._known:
            self._known.add(run_id)
            self._waiting[kind].put_nowait((run_id, key))

    async def _work(self, kind: str) -> None:
        while True:
            run_id, key = await self._waiting[kind].get()
            try:
                ending = await self._works[kind].carried_out(run_id, key)
                self._log(f"{run_id}: {ending['outcome']}")
            except Refusal as refusal:
                self._log(f"{run_id}: {refusal.message}")
            except (Fault, OSError, sqlite3.Error) as error:
                # It stays active: the next server, or the next delivery of it, takes it up.
                self._log(f"{run_id}: {error}")
            finally:
                self._known.discard(run_id)

    async def _cancelled(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
