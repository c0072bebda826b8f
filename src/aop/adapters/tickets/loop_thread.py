"""Event loop in a thread beside the caller's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine


class BackgroundLoop:
    """Implements `aop.tickets.runs.pool.LoopThread`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tickets", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, do: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(do)

    def finish(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
