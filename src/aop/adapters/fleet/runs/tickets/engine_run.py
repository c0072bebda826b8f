"""Engine run: a ticket run whose steps are those of the engine on the platform."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from dbos import DBOS

from aop.core.errors import Json
from aop.core.ids import RunId

_WITHHELD = {"withheld": "The result has a secret; the step is done again."}
_PAUSE_SECONDS = 0.1


class Fence:
    """Tells whether this worker is cut off from the database, and whether it was meanwhile."""

    def __init__(self, is_cut_off: Callable[[], bool]) -> None:
        self._is_cut_off = is_cut_off
        self.has_fallen = False

    def __call__(self) -> bool:
        self.has_fallen |= (is_now := self._is_cut_off())
        return is_now


class EngineRun:
    """Implements `aop.tickets.runs.storage.StoredRun`, within a workflow of DBOS."""

    def __init__(self, run_id: RunId, fence: Fence, has_secret: Callable[[Json], bool]) -> None:
        self.run_id = run_id
        self._fence = fence
        self._has_secret = has_secret

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a step once. A result with a secret is not stored: after the death of a worker such a step is repeated."""
        kept: list[Json] = []

        async def perform() -> Json:
            outcome = await self._whole(do)
            if self._has_secret(outcome):
                kept.append(outcome)
                return dict(_WITHHELD)
            return outcome

        stored: Json = await DBOS.run_step_async({"name": name}, perform)
        if stored != _WITHHELD:
            return stored
        return kept[0] if kept else await self._whole(do)

    def forget(self) -> None:
        """Delete nothing: the engine removes the run with its steps."""

    async def _whole(self, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do something while the database is there; once more if it was lost: calls were refused or broken off then."""
        while True:
            while self._fence():  # noqa: ASYNC110 - a beat in another thread ends it
                # Either the database is back, or this process ends.
                await asyncio.sleep(_PAUSE_SECONDS)
            self._fence.has_fallen = False
            outcome = await do()
            if not self._fence.has_fallen:
                return outcome


class EngineRuns:
    """Implements `aop.tickets.runs.storage.StoredRuns`: the engine hands each run to one worker at a time."""

    def __init__(self, fence: Fence, has_secret: Callable[[Json], bool]) -> None:
        self._fence = fence
        self._has_secret = has_secret

    @contextmanager
    def lock(self, run_id: RunId) -> Iterator[EngineRun]:
        yield EngineRun(run_id, self._fence, self._has_secret)

    def ids(self) -> list[RunId]:
        return []

    def remove(self, run_id: RunId) -> None:
        """Delete nothing: the engine removes runs with their steps."""
