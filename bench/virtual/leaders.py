"""Leaders of a simulation: each orders the gates of one repository, within its limit, and records their verdicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from msgspec import Struct

from bench.virtual.database import Gate
from bench.virtual.hosts import Host

LOOK_SECONDS = 0.5
"""An end that nobody told of is looked for so often."""


class Feature(Struct, eq=False):
    """A feature, whose gates follow one another."""

    number: int
    gates: tuple[tuple[float, bool], ...]
    """The seconds that each takes, and whether it reaches the network."""
    begun: float = 0.0


class Repository:
    """The features of one repository that have been handed in, and how many of its gates may run at a time."""

    def __init__(self, number: int, limit: int) -> None:
        self.number = number
        self.limit = limit
        self.open: dict[int, Feature] = {}
        self.leader: Leader | None = None
        self.lost: float | None = None
        """When the host of its leader was lost."""


class Leader:
    """One leader on a host; it knows what the record says, and what it has ordered itself."""

    def __init__(
        self, repository: Repository, epoch: int, host: Host, *, random: Random, done: Callable[[Feature], None]
    ) -> None:
        self._repository = repository
        self._epoch = epoch
        self._host = host
        self._database = host.database
        self._random = random
        self._done = done
        self._ordered: dict[Gate, Feature] = {}
        self._ready: deque[Feature] = deque()
        self._is_over = False

    def start(self) -> None:
        """Go on from the record alone; gates that the one before had ordered are ordered again."""
        self._ready.extend(self._repository.open.values())
        self._order()

    def take(self, feature: Feature) -> None:
        """Have another feature to lead."""
        self._host.after(0.0, partial(self._take, feature))

    def _take(self, feature: Feature) -> None:
        self._ready.append(feature)
        self._order()

    def hear(self, gate: Gate) -> None:
        """Be told of an end; the notice of one that was cut off or frozen comes when it looks."""
        self._host.after(LOOK_SECONDS if self._host.is_disturbed else 0.01, partial(self._record, gate))

    def look(self) -> None:
        """Look for ends that nobody told of."""
        for gate in [gate for gate in self._ordered if gate.answers]:
            self._host.after(self._random.uniform(0.0, LOOK_SECONDS), partial(self._record, gate))

    def _order(self) -> None:
        while self._ready and len(self._ordered) < self._repository.limit and not self._is_over:
            feature = self._ready.popleft()
            step = self._step(feature)
            if step >= len(feature.gates):
                self._finish(feature)
                continue
            seconds, reaches_network = feature.gates[step]
            gate = Gate(self._repository.number, feature.number, step, seconds=seconds, reaches_network=reaches_network)
            self._ordered[gate] = feature
            self._enqueue(gate)

    def _enqueue(self, gate: Gate) -> None:
        # Its id makes it once, however often it is sent.
        def do() -> None:
            if not gate.order:
                self._database.enqueue(gate)

        self._host.ask(do, _nothing, lambda: self._host.after(LOOK_SECONDS, partial(self._enqueue, gate)))

    def _record(self, gate: Gate) -> None:
        if gate not in self._ordered or self._is_over:
            return
        feature = self._ordered[gate]

        def do() -> bool:
            # An operation that is recorded is not recorded again when its caller asks once more.
            if gate in self._ordered and not gate.is_recorded:
                gate.is_recorded = self._database.record(gate, self._epoch)
            return gate.is_recorded

        self._host.ask(
            do,
            partial(self._recorded, gate, feature),
            lambda: self._host.after(LOOK_SECONDS, partial(self._record, gate)),
        )

    def _recorded(self, gate: Gate, feature: Feature, *is_recorded: bool) -> None:
        if is_recorded != (True,):
            # Another one leads.
            self._is_over = True
            return
        if self._ordered.pop(gate, None) is None:
            return
        self._ready.append(feature)
        self._order()

    def _step(self, feature: Feature) -> int:
        """Return the first gate of a feature without a verdict in the record."""
        recorded = self._database.recorded
        return next(
            (step for step in range(len(feature.gates)) if not recorded[feature.number, step]), len(feature.gates)
        )

    def _finish(self, feature: Feature) -> None:
        if self._repository.open.pop(feature.number, None) is not None:
            self._done(feature)


def gates_of(random: Random, count: int) -> Iterable[tuple[float, bool]]:
    """Return gates of some seconds each; one in five reaches the network."""
    for _ in range(count):
        yield random.uniform(2.0, 14.0), random.random() < 0.2


def _nothing(*_: object) -> None:
    pass
