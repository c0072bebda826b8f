"""Runs: durable work whose finished steps are never repeated.

A waiting run keeps its place in a queue, so its queue has no limit; what must be limited is a child run in another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import RunId


class RunState(StrEnum):
    """The state of a run in the engine."""

    QUEUED = "queued"
    ACTIVE = "active"
    DONE = "done"
    BROKEN = "broken"
    """It ended with an exception and is not retried."""
    CANCELLED = "cancelled"


ENDED = frozenset({RunState.DONE, RunState.BROKEN, RunState.CANCELLED})


class RunBroke(Exception):
    """A run has no result: it ended with an exception or was cancelled."""

    def __init__(self, run_id: RunId, why: str) -> None:
        super().__init__(f"The run `{run_id}` has no result: {why}")
        self.run_id = run_id


class Steps(Protocol):
    """The steps of a run. Code outside of a step may depend only on what steps returned."""

    @property
    def run_id(self) -> RunId:
        """Return the run's own id, which is its key."""

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do something once and record its result; a step that was interrupted is done again."""


class Questions(Protocol):
    """The questions that a run asks its surroundings."""

    async def ask(self, topic: str) -> Json:
        """Wait for the answer to a topic, without a time limit and across restarts."""


class Children(Protocol):
    """The runs that a run starts."""

    async def spawn(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        """Queue another run; the same key twice is one run."""

    async def result(self, run_id: RunId) -> Json:
        """Wait for the result of a run that was spawned. Raises: RunBroke."""


class Run(Steps, Questions, Children, Protocol):
    """A run as the engine hands it to a pipeline, which declares only the parts that it uses."""


Pipeline: TypeAlias = Callable[[Run, Json], Awaitable[Json]]


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of run: its pipeline, and how many may be active at once."""

    pipeline: Pipeline
    limit: int | None = None
    """None: no limit. Others wait in a queue, by priority and then in order of submission."""


class Engine(Protocol):
    """Carries out runs: submitted ones, and at its start those that a dead process left."""

    def start(self, kinds: Mapping[str, Kind]) -> None:
        """Start with everything that is queued or was interrupted."""

    def submit(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        """Queue a run; the same key twice is one run. The lowest priority number (from 1) goes first."""

    def answer(self, run_id: RunId, topic: str, answer: Json) -> None:
        """Answer a run's present or future question; the first answer to a topic counts."""

    def cancel(self, run_id: RunId) -> None:
        """End a run and its children, without waiting for a step in progress."""

    def states(self, prefix: str = "") -> dict[RunId, RunState]:
        """Return the runs whose keys begin with a prefix, in the order of submission."""

    def result(self, run_id: RunId) -> Json:
        """Return the result of a run that is done. Raises: RunBroke."""

    def forget(self, run_id: RunId) -> None:
        """Remove a run that has ended, and its children."""

    def close(self) -> None:
        """Stop; active runs continue at the next start."""
