"""Calls of brief tools on their way to one thread: those that come while it is at work are its next work, together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Asked

AT_ONCE = 32
"""Nobody waits for more calls of others than so many, twice."""


class BriefCalls:
    """One thread, so that calls that take no time spend none on handing the interpreter to each other."""

    def __init__(self, answer_all: Callable[[Sequence[Asked]], Sequence[Envelope]]) -> None:
        """`answer_all` is called in the thread, and raises nothing."""
        self._answer_all = answer_all
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="brief")
        self._waiting: list[tuple[Asked, asyncio.Future[Envelope]]] = []
        self._working: asyncio.Task[None] | None = None

    async def answer(self, asked: Asked) -> Envelope:
        """Wait in line and return the answer; the call is carried out also if nobody waits for it any more."""
        answered: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answered))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await answered

    def close(self) -> None:
        """Carry out what is left, whether or not somebody still waits for it."""
        self._thread.shutdown(wait=True)
        if self._waiting:
            self._answer_all([asked for asked, _ in self._waiting])

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            now, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            answers = await loop.run_in_executor(self._thread, self._answer_all, [asked for asked, _ in now])
            for (_, answered), answer in zip(now, answers, strict=True):
                # Whoever asked may have gone away.
                if not answered.done():
                    answered.set_result(answer)
        self._working = None
