"""Pool of ticket runners: several runs at once, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from aop.core.errors import Fault, Refusal
from aop.core.ids import RunId
from aop.tickets.runs.runner import PRODUCTS, TicketRunner, remove_ended
from aop.tickets.runs.storage import RunLedger, StoredRuns
from aop.tickets.steps import Desk


class LoopThread(Protocol):
    """An event loop in another thread."""

    def start(self) -> None:
        """Start the thread."""

    def call(self, do: Callable[[], object]) -> None:
        """Call a function inside the loop, soon; from any thread."""

    def finish(self, work: Coroutine[object, object, None]) -> None:
        """Run one last coroutine to its end, then stop the loop and its thread."""


class RunnerPool:
    """Runners behind one queue for each kind. Waiting runs are in the ledger, so a restart finds them again."""

    def __init__(
        self,
        ledger: RunLedger,
        runs: StoredRuns,
        open_desk: Callable[[str], AbstractContextManager[Desk]],
        thread: LoopThread,
        *,
        at_once: int,
        log: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._thread = thread
        self._at_once = at_once
        self._log = log
        self._desks = ExitStack()
        self._runners: dict[str, TicketRunner] = {}
        self._refusals: dict[str, Refusal] = {}
        for kind in PRODUCTS:
            try:
                self._runners[kind] = TicketRunner(kind, self._desks.enter_context(open_desk(kind)), ledger, runs)
            except Refusal as refusal:
                self._refusals[kind] = refusal
        self._waiting: Mapping[str, asyncio.Queue[tuple[RunId, str]]] = {
            kind: asyncio.Queue() for kind in self._runners
        }
        self._submitted: set[RunId] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def refusals(self) -> Mapping[str, Refusal]:
        """Return why a kind of work cannot be done here."""
        return self._refusals

    def start(self) -> None:
        """Start the runners, and queue the runs that an earlier process left."""
        remove_ended(self._ledger, self._runs)
        self._thread.start()
        self._thread.call(self._start_tasks)
        for kind, key, run_id in self._ledger.active():
            self.submit(kind, run_id, key)

    def submit(self, kind: str, run_id: RunId, key: str) -> None:
        """Queue a run unless it is queued already; from any thread."""
        if kind in self._runners:
            self._thread.call(lambda: self._enqueue(kind, run_id, key))

    def close(self) -> None:
        """Stop at once: the next start continues each run after its last finished step."""
        self._thread.finish(self._cancel_tasks())
        self._desks.close()

    def _start_tasks(self) -> None:
        self._tasks = [asyncio.create_task(self._work(kind)) for kind in self._runners for _ in range(self._at_once)]

    def _enqueue(self, kind: str, run_id: RunId, key: str) -> None:
        if run_id not in self._submitted:
            self._submitted.add(run_id)
            self._waiting[kind].put_nowait((run_id, key))

    async def _work(self, kind: str) -> None:
        while True:
            run_id, key = await self._waiting[kind].get()
            try:
                ending = await self._runners[kind].carry_out(run_id, key)
                self._log(f"{run_id}: {ending['outcome']}")
            except Refusal as refusal:
                self._log(f"{run_id}: {refusal.message}")
            except (Fault, OSError) as error:
                # The run stays active: the next start, or the next delivery for it, continues it.
                self._log(f"{run_id}: {error}")
            finally:
                self._submitted.discard(run_id)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
