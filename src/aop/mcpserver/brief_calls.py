"""Brief calls: calls of quick tools, answered in batches by one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import ToolRequest

MOST_IN_BATCH = 32
"""The largest batch: a call waits for at most two of them."""


class BriefCalls:
    """One thread, so that quick calls spend no time on switching threads."""

    def __init__(self, answer_all: Callable[[Sequence[ToolRequest]], Sequence[Envelope]]) -> None:
        """`answer_all` runs in the thread and raises nothing."""
        self._answer_all = answer_all
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="brief")
        self._waiting: list[tuple[ToolRequest, asyncio.Future[Envelope]]] = []
        self._working: asyncio.Task[None] | None = None

    async def answer(self, asked: ToolRequest) -> Envelope:
        """Queue a call and return its answer; it is carried out also if the client disconnects."""
        answered: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answered))
        if self._working is None:
            self._working = asyncio.create_task(self._answer_batches())
        return await answered

    def close(self) -> None:
        """Carry out the queued calls, also those whose client has gone."""
        self._thread.shutdown(wait=True)
        if self._waiting:
            self._answer_all([asked for asked, _ in self._waiting])

    async def _answer_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            now, self._waiting = self._waiting[:MOST_IN_BATCH], self._waiting[MOST_IN_BATCH:]
            answers = await loop.run_in_executor(self._thread, self._answer_all, [asked for asked, _ in now])
            for (_, answered), answer in zip(now, answers, strict=True):
                # The client may have disconnected.
                if not answered.done():
                    answered.set_result(answer)
        self._working = None
