"""Database of a simulation: the rows of workers, judge, queue, leaders and record, and what PostgreSQL and DBOS decide.

Each method is one transaction. It mirrors the statements of `aop.adapters.fleet`, the claims and the fence of DBOS, and
the epoch of the record; the decisions of workers are not here.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from aop.adapters.fleet.rules import JUDGE_SECONDS, LOCK_SECONDS
from bench.virtual.agenda import Agenda
from bench.virtual.flaws import Flaw


class Gate:
    """A gate run in the queue."""

    def __init__(self, repository: int, feature: int, step: int, *, seconds: float, reaches_network: bool) -> None:
        self.repository = repository
        self.feature = feature
        self.step = step
        self.seconds = seconds
        self.reaches_network = reaches_network
        self.queued = 0.0
        self.order = 0
        self.owner = 0
        """The token of the claim that counts; 0 while it waits."""
        self.executor = ""
        self.answers = 0
        self.is_recorded = False
        self.lost: float | None = None
        """When the host that runs it was killed, frozen or cut off."""
        self.running_on: set[str] = set()
        """The workers on which it runs, of those that are neither dead nor frozen."""


class Database:
    """One PostgreSQL, which can be away."""

    def __init__(self, agenda: Agenda, flaws: frozenset[Flaw]) -> None:
        self.agenda = agenda
        self.flaws = flaws
        self.is_up = True
        self.back = 0.0
        """When it was last started."""
        self.listeners: dict[str, Callable[[], None]] = {}
        """Told of runs that begin to wait, by worker."""
        self.told_of_end: Callable[[Gate], None] = lambda _gate: None
        self.beats: dict[str, float] = {}
        """The last beat of each worker that is not gone."""
        self.locks: set[str] = set()
        self.judge, self.judge_until = "", 0.0
        self._waiting: list[tuple[int, int, Gate]] = []
        self._pending: dict[str, set[Gate]] = defaultdict(set)
        self.leaders: dict[int, tuple[str, int]] = {}
        """The worker that leads a repository, and its epoch."""
        self._led: dict[str, set[int]] = defaultdict(set)
        self._free: dict[int, None] = {}
        """Repositories that nobody leads, in order."""
        self.recorded: Counter[tuple[int, int]] = Counter()
        """How often the verdict of a gate of a feature was recorded."""
        self.declared_dead: list[str] = []
        self.answered_twice = 0
        self._numbers = count(1)

    def stop(self) -> None:
        """Go away as by a power cut: sessions end, and with them their locks and what they listen to."""
        self.is_up = False
        self.locks.clear()
        self.listeners.clear()

    def start(self) -> None:
        self.is_up, self.back = True, self.agenda.now

    # -- workers

    def enter(self, worker: str, listener: Callable[[], None]) -> None:
        self.beats[worker] = self.agenda.now
        self.connect(worker, listener)

    def connect(self, worker: str, listener: Callable[[], None]) -> None:
        self.locks.add(worker)
        self.listeners[worker] = listener

    def disconnect(self, worker: str) -> None:
        """End a session whose process has ended."""
        self.locks.discard(worker)
        self.listeners.pop(worker, None)

    def beat(self, worker: str) -> int | None:
        """Take a beat; return how many workers live, or None for one that was declared dead."""
        if worker not in self.beats:
            return None
        self.beats[worker] = self.agenda.now
        return len(self.beats)

    def takes_judge(self, worker: str) -> bool:
        if self.judge != worker and self.judge_until >= self.agenda.now:
            return False
        self.judge, self.judge_until = worker, self.agenda.now + JUDGE_SECONDS
        return True

    def late(self) -> Sequence[tuple[str, float]]:
        """Return who has not beaten for long, and for how long."""
        now = self.agenda.now
        return [(worker, now - beat) for worker, beat in self.beats.items() if now - beat > LOCK_SECONDS]

    def declare(self, dead: Iterable[str]) -> None:
        for worker in dead:
            if self.agenda.now - self.beats.get(worker, self.agenda.now) > LOCK_SECONDS:
                del self.beats[worker]
                self.declared_dead.append(worker)
                self._free |= dict.fromkeys(sorted(self._led.pop(worker, ())))
        for worker in [worker for worker in self._pending if worker not in self.beats]:
            for gate in sorted(self._pending.pop(worker), key=lambda gate: gate.order):
                self._wait(gate)

    # -- the queue

    def enqueue(self, gate: Gate) -> None:
        gate.order, gate.queued = next(self._numbers), self.agenda.now
        self._wait(gate)

    def claim(self, worker: str, places: int) -> tuple[int, list[Gate]]:
        """Give a worker the oldest runs that wait, under a token of their own."""
        token = next(self._numbers)
        taken: list[Gate] = []
        while self._waiting and len(taken) < places:
            _, _, gate = heapq.heappop(self._waiting)
            if gate.owner == 0 and gate.answers == 0:
                gate.owner, gate.executor = token, worker
                self._pending[worker].add(gate)
                taken.append(gate)
        return token, taken

    def give_back(self, worker: str, known: Iterable[Gate]) -> None:
        """Put back what a worker claimed without hearing of it."""
        for gate in self._pending[worker] - set(known):
            self._pending[worker].discard(gate)
            self._wait(gate)

    def answer(self, gate: Gate, token: int) -> bool:
        """Take the answer to a run, if its owner sends it."""
        if gate.owner != token and Flaw.NO_OWNER not in self.flaws:
            return False
        self._pending[gate.executor].discard(gate)
        gate.owner = 0
        gate.answers += 1
        self.answered_twice += gate.answers > 1
        self.told_of_end(gate)
        return True

    def claimed_by(self, worker: str) -> Iterable[Gate]:
        return self._pending.get(worker, ())

    def _wait(self, gate: Gate) -> None:
        gate.owner = 0
        heapq.heappush(self._waiting, (gate.order, next(self._numbers), gate))
        for told in list(self.listeners.values()):
            told()

    # -- leaders and the record

    def offer(self, repositories: Iterable[int]) -> None:
        """Have repositories led by whoever asks first."""
        self._free |= dict.fromkeys(repositories)

    @property
    def has_free_leads(self) -> bool:
        return bool(self._free)

    def takes_leads(self, worker: str, at_most: int, known: set[int]) -> list[tuple[int, int]]:
        """Give a worker repositories that nobody leads, each with its epoch; those too that it has not heard of."""
        if worker not in self.beats:
            return []
        taken = [(repository, self.leaders[repository][1]) for repository in sorted(self._led[worker] - known)]
        for repository in list(self._free)[:at_most]:
            del self._free[repository]
            epoch = self.leaders.get(repository, ("", 0))[1] + 1
            self.leaders[repository] = (worker, epoch)
            self._led[worker].add(repository)
            taken.append((repository, epoch))
        return taken

    def led_by(self, worker: str) -> Iterable[int]:
        return self._led.get(worker, ())

    def record(self, gate: Gate, epoch: int) -> bool:
        """Record a verdict, if the leader that sends it is still the leader."""
        if self.leaders[gate.repository][1] != epoch and Flaw.NO_EPOCH not in self.flaws:
            return False
        self.recorded[gate.feature, gate.step] += 1
        return True
