"""Memory engine: the durable engine's promises while its `Memory` lives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from aop.core.errors import Json
from aop.core.ids import RunId
from aop.core.run import ENDED, Kind, RunBroke, RunState

T = TypeVar("T")


class Memory:
    """The state that outlives a killed engine."""

    def __init__(self) -> None:
        self.runs: dict[RunId, _RunEntry] = {}
        self.steps: dict[tuple[RunId, int], Json] = {}
        self.answers: dict[tuple[RunId, str], Json] = {}


class _RunEntry:
    def __init__(self, kind: str, payload: Json, place: tuple[int, int]) -> None:
        self.kind = kind
        self.payload = payload
        self.place = place
        """Its priority, and how many were queued before it."""
        self.state = RunState.QUEUED
        self.result: Json = None
        self.problem = ""


class MemoryEngine:
    """Implements `aop.core.run.Engine`."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self._kinds: Mapping[str, Kind] = {}
        self._tasks: dict[RunId, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._news = asyncio.Condition()

    def start(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds
        for kept in self.memory.runs.values():
            kept.state = RunState.QUEUED if kept.state is RunState.ACTIVE else kept.state
        self._thread.start()
        self._within(self._announce())

    def submit(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        return self._within(self.queue(kind, payload, RunId(key), priority))

    def answer(self, run_id: RunId, topic: str, answer: Json) -> None:
        async def keep() -> None:
            self.memory.answers.setdefault((run_id, topic), _copied(answer))
            await self._announce()

        self._within(keep())

    def cancel(self, run_id: RunId) -> None:
        async def end() -> None:
            for key, kept in self.memory.runs.items():
                if (key == run_id or key.startswith(f"{run_id}/")) and kept.state not in ENDED:
                    kept.state = RunState.CANCELLED
                    if key in self._tasks:
                        self._tasks[key].cancel()
            await self._announce()

        self._within(end())

    def states(self, prefix: str = "") -> dict[RunId, RunState]:
        return {key: kept.state for key, kept in self.memory.runs.items() if key.startswith(prefix)}

    def result(self, run_id: RunId) -> Json:
        return self._within(self.awaited(run_id))

    def forget(self, run_id: RunId) -> None:
        for key in [key for key in self.memory.runs if key == run_id or key.startswith(f"{run_id}/")]:
            del self.memory.runs[key]

    def close(self) -> None:
        """End as a killed process would: active runs are dropped without a trace."""

        async def drop() -> None:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

        self._kinds = {}
        self._within(drop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def queue(self, kind: str, payload: Json, key: RunId, priority: int) -> RunId:
        """Queue a run, and start it if there is a place."""
        if key not in self.memory.runs:
            self.memory.runs[key] = _RunEntry(kind, _copied(payload), (priority, len(self.memory.runs)))
            await self._announce()
        return key

    async def awaited(self, run_id: RunId) -> Json:
        """Wait for a run to end."""
        kept = self.memory.runs[run_id]
        await self.until(lambda: kept.state in ENDED)
        if kept.state is not RunState.DONE:
            raise RunBroke(run_id, kept.problem or kept.state)
        return kept.result

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked after each change."""
        async with self._news:
            await self._news.wait_for(is_so)

    async def _announce(self) -> None:
        for name, kind in self._kinds.items():
            of_kind = {key: kept for key, kept in self.memory.runs.items() if kept.kind == name}
            active = sum(1 for kept in of_kind.values() if kept.state is RunState.ACTIVE)
            queued = sorted((kept.place, key) for key, kept in of_kind.items() if kept.state is RunState.QUEUED)
            for _, key in queued[: None if kind.limit is None else max(0, kind.limit - active)]:
                of_kind[key].state = RunState.ACTIVE
                self._tasks[key] = self._loop.create_task(self._perform(key, of_kind[key], kind))
        async with self._news:
            self._news.notify_all()

    async def _perform(self, key: RunId, kept: _RunEntry, kind: Kind) -> None:
        try:
            kept.result = _copied(await kind.pipeline(_MemoryRun(self, key), kept.payload))
            kept.state = RunState.DONE
        except Exception as error:  # noqa: BLE001 - whatever a pipeline raises ends its run, and only that
            kept.state, kept.problem = RunState.BROKEN, str(error)
        await self._announce()

    def _within(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class _MemoryRun:
    """Implements `aop.core.run.Run`."""

    def __init__(self, engine: MemoryEngine, run_id: RunId) -> None:
        self._engine = engine
        self.run_id = run_id
        self._steps = 0

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        self._steps += 1
        key, known = (self.run_id, self._steps), self._engine.memory.steps
        if key not in known:
            known[key] = _copied(await do())
        return known[key]

    async def spawn(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        return await self._engine.queue(kind, payload, RunId(f"{self.run_id}/{key}"), priority)

    async def result(self, run_id: RunId) -> Json:
        return await self._engine.awaited(run_id)

    async def ask(self, topic: str) -> Json:
        answers = self._engine.memory.answers
        await self._engine.until(lambda: (self.run_id, topic) in answers)
        return answers[self.run_id, topic]


def _copied(value: Json) -> Json:
    """Return a value as it comes back from stored JSON."""
    copy: Json = msgspec.json.decode(msgspec.json.encode(value))
    return copy
