"""One feature and recorded workers, brought on its way by the real policy and gateway, on the engine in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aop.adapters.agents.workers.replay import RecordedTurn, ReplayStaff, ReplayWorker
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.supervisor.advice import Adviser
from aop.supervisor.board import Board, BoardEntry
from aop.supervisor.feature_run import FeatureRuns, RunLimits
from aop.supervisor.notices import Attention, Notice
from aop.supervisor.supervisor import Supervisor
from aop.supervisor.workers import WorkerInput, WorkerOutput
from aop.testing.memory_engine import Memory, MemoryEngine
from tests.world import World

ONE = FeatureId("one")


class Watched:
    """A recorded worker that keeps what it was given."""

    def __init__(self, *turns: tuple[Role, WorkerOutput]) -> None:
        self._worker = ReplayWorker(RecordedTurn(role=role, output=output) for role, output in turns)
        self.given: list[WorkerInput] = []

    def turn(self, given: WorkerInput) -> WorkerOutput:
        self.given.append(given)
        return self._worker.turn(given)


class Office:
    """A supervisor at work, and what it tells."""

    def __init__(
        self,
        world: World,
        workers: dict[FeatureId, Watched],
        memory: Memory | None,
        turns: int,
        adviser: Adviser | None,
    ) -> None:
        self.told: list[str] = []
        self.board = Board()
        self.engine = MemoryEngine(memory)
        limits = RunLimits(active_features=2, agent_turns=2, gate_runs=2, turns_a_phase=turns)
        gateway = world.app.gateway
        self._lives = FeatureRuns(gateway, ReplayStaff(workers), self.board, limits, self._tell, adviser=adviser)
        attention = Attention(gateway, self, self._tell)
        self.supervisor = Supervisor(gateway, self.engine, self.board, attention)
        self.notices: list[Notice] = []

    def start(self) -> None:
        self.engine.start(self._lives.kinds())

    def settle(self) -> dict[FeatureId, BoardEntry]:
        self.supervisor.supervise(until="settled", stopped=lambda: False)
        return self.board.entries()

    def send(self, notice: Notice) -> None:
        self.notices.append(notice)

    def _tell(self, feature_id: FeatureId, line: str) -> None:
        self.told.append(f"{feature_id}: {line}")


@contextmanager
def office(
    world: World,
    workers: dict[FeatureId, Watched],
    *,
    memory: Memory | None = None,
    turns: int = 8,
    adviser: Adviser | None = None,
) -> Iterator[Office]:
    """Have a supervisor whose features are worked on as recorded."""
    made = Office(world, workers, memory, turns, adviser)
    made.start()
    try:
        yield made
    finally:
        made.engine.close()


def brought(world: World, worker: Watched, *, turns: int = 8) -> BoardEntry:
    """Bring the feature `one` as far as it goes."""
    with office(world, {ONE: worker}, turns=turns) as at_work:
        at_work.supervisor.submit([ONE])
        return at_work.settle()[ONE]
