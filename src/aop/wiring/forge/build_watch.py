"""Build watch: a thread that notices when a running build is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import msgspec

from aop.core.errors import Fault, Json, Refusal
from aop.forge.builds.documents import BuildCycle, BuildError
from aop.forge.builds.people.watchdog import Sign, begun_watch, looked, revived
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.builds.run.knowledge import BuildKnowledge
from aop.forge.builds.tools.controls import BuildHold, BuildSilence
from aop.forge.generation.stored_steps import StoredSteps, ToolRefused
from aop.kernel.config.workflows import BuildRules
from aop.kernel.ports.handed_in import Report
from aop.kernel.record.documents.questions import Question

LOOK_SECONDS = 0.5
SHAPES = (Question, BuildCycle, BuildError, BuildSilence, BuildHold)
"""The shapes that the thread reads: two threads that first use one at once crash msgspec."""

T = TypeVar("T")


class BuildWatch:
    """Looks at one running build; a thread of its own does, because a call of a tool holds the loop."""

    def __init__(
        self,
        known: BuildKnowledge,
        rules: BuildRules,
        seconds: Callable[[], float],
        tell: Callable[[Sign, int], None],
    ) -> None:
        """Take the clock that never goes back, and the way to tell those who follow the build."""
        self._known = known
        self._rules = rules
        self._seconds = seconds
        self._tell = tell
        self._lock = Lock()
        self._watch = begun_watch(seconds())
        self._is_over = Event()

    def alive(self) -> None:
        """Note that the build did something."""
        with self._lock:
            self._watch = revived(self._watch, self._seconds())

    def over_steps(self, steps: StoredSteps) -> StoredSteps:
        """Return the same steps, each of which is a sign of life when it begins and when it ends."""
        return _WatchedSteps(steps, self.alive)

    def over_report(self, report: Report) -> Report:
        """Return the same report, each line of which is a sign of life."""

        def told(line: str) -> None:
            self.alive()
            report(line)

        return told

    async def over(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what work comes to; end it if the build is silent for too long. Raises: BuildHeld, and as the work."""
        for shape in SHAPES:
            msgspec.json.Decoder(shape)
        task, loop = asyncio.create_task(work), asyncio.get_running_loop()
        thread = Thread(target=self._look, args=(lambda: loop.call_soon_threadsafe(task.cancel),), daemon=True)
        thread.start()
        try:
            return await task
        except asyncio.CancelledError:
            cycle = self._known.cycle()
            if not cycle.hold:
                raise
            raise BuildHeld(cycle) from None
        finally:
            self._is_over.set()
            thread.join()

    def _look(self, end: Callable[[], object]) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            # A look that fails, as on a full disk, is made again; the build itself meets the same, and says so.
            with suppress(ToolRefused, Refusal, Fault):
                # The time first: what passes after an answer that comes meanwhile is silence for the next look.
                now, is_asked = self._seconds(), self._known.is_asked()
                with self._lock:
                    now = max(now, self._watch.looked_at)
                    self._watch, signs = looked(self._watch, self._rules, now, is_asked=is_asked)
                    silent = int(self._watch.looked_at - self._watch.alive_at)
                for sign in signs:
                    self._tell(sign, silent)
                if "fail" in signs:
                    end()
                    return


class _WatchedSteps:
    """Implements `aop.forge.generation.stored_steps.StoredSteps`."""

    def __init__(self, steps: StoredSteps, alive: Callable[[], None]) -> None:
        self.run_id = steps.run_id
        self._steps = steps
        self._alive = alive

    @property
    def steps_done(self) -> int:
        return self._steps.steps_done

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        self._alive()
        try:
            return await self._steps.step(name, do)
        finally:
            self._alive()

    def go_back(self, steps: int = 0) -> None:
        self._steps.go_back(steps)

    def forget(self) -> None:
        self._steps.forget()
