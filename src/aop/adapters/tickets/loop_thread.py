"""Loop thread: an event loop in a thread beside the caller's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def running_loop(name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class BackgroundLoop:
    """Implements `aop.tickets.runs.pool.LoopThread`."""

    def __init__(self) -> None:
        self._ends = ExitStack()

    def start(self) -> None:
        self._loop = self._ends.enter_context(running_loop("tickets"))

    def call(self, do: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(do)

    def finish(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()
        self._ends.close()
