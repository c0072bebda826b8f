"""Fleet of a simulation: hosts with workers and leaders, what happens to them, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from msgspec import Struct

from bench.virtual.agenda import Agenda
from bench.virtual.database import Database, Gate
from bench.virtual.flaws import Flaw
from bench.virtual.hosts import Host
from bench.virtual.leaders import Feature, Leader, Repository, gates_of
from bench.virtual.tallies import Tallies
from bench.virtual.workers import Worker

PLACES = 2
GATES = 3
MEAN_GATE = 8.0
BUSY = 0.5
"""The share of places that gates take, if nothing happens."""
LIMIT = 2
"""How many gate runs a repository has at a time; the default of the policy."""
GREEDY, GREEDY_SHARE, GREEDY_LIMIT = 0, 0.05, 10
"""One repository hands in so many of all features at once, and allows itself so many gate runs."""
FAULTS = 0.5
"""How often a host is killed, frozen or cut off, in a minute."""
OUTAGES = 600.0
"""Mean seconds between two restarts of the database."""
PATIENCE = 1800.0
"""A feature that is not ready so long after the last was handed in is lost."""


class Size(Struct, frozen=True, kw_only=True):
    """How much is simulated."""

    workers: int
    repositories: int
    features: int
    seed: int
    flaws: frozenset[Flaw] = frozenset()


class Outcome(Struct, frozen=True, kw_only=True):
    """What a simulation showed: the figures, and beside them what they rest on."""

    lost: int
    recorded_twice: int
    takeover_max_seconds: float
    looks_per_second: int
    last_to_first: float


class Background(Struct, frozen=True, kw_only=True):
    """Facts beside the outcome."""

    virtual_seconds: float
    faults: int
    takeovers: int
    wrongly_dead: int
    """Workers that were declared dead, although nothing had happened to them."""
    median_wait_seconds: float
    """How long a gate waits for a place, in the median repository beside the greedy one."""
    longest_to_median_wait: float
    """The same in the repository that waits longest, next to it."""


class Fleet:
    """All hosts, repositories and features of one simulation."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._random = Random(size.seed)
        self._agenda = Agenda()
        self._database = Database(self._agenda, size.flaws)
        self._database.told_of_end = self._tell_leader
        self._tallies = Tallies()
        self._hosts = [Host(self._agenda, self._database, self._random) for _ in range(size.workers)]
        self._workers: dict[Host, Worker] = {}
        self._leads: dict[Host, list[tuple[Repository, Leader]]] = {host: [] for host in self._hosts}
        self._starts = 0
        self._faults = 0
        self._disturbed: set[str] = set()
        """The workers to which something has happened."""
        self._greedy = max(1, int(size.features * GREEDY_SHARE))
        self._repositories = [
            Repository(number, GREEDY_LIMIT if number == GREEDY else LIMIT) for number in range(size.repositories)
        ]
        self._open = size.features
        self._seconds = size.features * GATES * MEAN_GATE / (size.workers * PLACES * BUSY)

    def run(self) -> tuple[Outcome, Background]:
        """Let all features be handed in, and time pass until all are ready, or lost."""
        self._database.offer(range(len(self._repositories)))
        for host in self._hosts:
            host.after(self._random.uniform(0.0, 1.0), partial(self._start, host))
        self._hand_in_all()
        self._later(1.0 / len(self._hosts) / FAULTS * 60.0, self._disturb)
        self._later(OUTAGES, self._restart_database)
        self._agenda.run(self._seconds + PATIENCE, lambda: not self._open)
        return self._outcome(), self._background()

    def _outcome(self) -> Outcome:
        recorded, tallies = self._database.recorded, self._tallies
        return Outcome(
            lost=self._open,
            recorded_twice=sum(times - 1 for times in recorded.values())
            + self._database.answered_twice
            + tallies.overlaps,
            takeover_max_seconds=round(max(tallies.takeovers, default=0.0), 2),
            looks_per_second=tallies.looks_per_second,
            last_to_first=round(tallies.last_to_first(without=self._greedy), 3),
        )

    def _background(self) -> Background:
        median, longest = self._tallies.waits(without=GREEDY)
        return Background(
            virtual_seconds=round(self._agenda.now, 1),
            faults=self._faults,
            takeovers=len(self._tallies.takeovers),
            wrongly_dead=len(set(self._database.declared_dead) - self._disturbed),
            median_wait_seconds=round(median, 2),
            longest_to_median_wait=round(longest / median, 2) if median else 0.0,
        )

    # -- features

    def _hand_in_all(self) -> None:
        for number in range(self._size.features):
            is_greedy = number < self._greedy or len(self._repositories) == 1
            repository = GREEDY if is_greedy else 1 + number % (len(self._repositories) - 1)
            feature = Feature(number=number, gates=tuple(gates_of(self._random, GATES)))
            moment = 0.0 if is_greedy else self._random.uniform(0.0, self._seconds)
            self._agenda.after(moment, partial(self._hand_in, self._repositories[repository], feature))

    def _hand_in(self, repository: Repository, feature: Feature) -> None:
        feature.begun = self._agenda.now
        repository.open[feature.number] = feature
        if repository.leader is not None:
            repository.leader.take(feature)

    def _done(self, feature: Feature) -> None:
        self._open -= 1
        self._tallies.features[feature.number] = (feature.begun, self._agenda.now)

    def _tell_leader(self, gate: Gate) -> None:
        leader = self._repositories[gate.repository].leader
        if leader is not None:
            leader.hear(gate)

    # -- hosts

    def _start(self, host: Host) -> None:
        self._starts += 1
        host.start()
        worker = Worker(
            f"worker-{self._starts}",
            host,
            places=PLACES,
            tallies=self._tallies,
            lead=partial(self._lead, host),
            ended=partial(self._end, host),
        )
        self._workers[host] = worker
        worker.start()

    def _lead(self, host: Host, number: int, epoch: int) -> None:
        repository = self._repositories[number]
        if repository.lost is not None:
            self._tallies.taken_over(self._agenda.now, repository.lost, self._database.back)
            repository.lost = None
        leader = Leader(repository, epoch, host, random=self._random, done=self._done)
        self._leads[host].append((repository, leader))
        repository.leader = leader
        leader.start()

    def _end(self, host: Host) -> None:
        """End all that runs on a host; it is started again after a while."""
        worker = self._workers.pop(host)
        worker.stop()
        if host.reaches_database:
            self._database.disconnect(worker.name)
        for repository, leader in self._leads[host]:
            if repository.leader is leader:
                repository.leader = None
        self._leads[host].clear()
        host.kill()
        self._agenda.after(self._random.uniform(1.0, 5.0), partial(self._start, host))

    # -- what happens to them

    def _disturb(self) -> None:
        if self._agenda.now > self._seconds:
            # What is lost by now would be found if another fault came and put everything back.
            return
        self._later(1.0 / len(self._hosts) / FAULTS * 60.0, self._disturb)
        host = self._random.choice(self._hosts)
        if host.is_disturbed or host not in self._workers:
            return
        self._faults += 1
        self._disturbed.add(self._workers[host].name)
        self._note_loss(host)
        kind = self._random.random()
        if kind < 0.4:
            self._end(host)
        elif kind < 0.7:
            self._workers[host].freeze()
            host.freeze()
            self._agenda.after(self._duration(), partial(self._mend, host, host.thaw))
        else:
            host.cut()
            self._agenda.after(self._duration(), partial(self._mend, host, host.join))

    def _duration(self) -> float:
        """Return how long a fault lasts: seconds, and now and then longer than a worker goes on alone."""
        return 70.0 if self._random.random() < 0.05 else self._random.uniform(0.5, 10.0)

    def _note_loss(self, host: Host) -> None:
        """Note since when what a host has is lost; what it has been given without hearing of it, too."""
        worker = self._workers[host].name
        for gate in self._database.claimed_by(worker):
            gate.lost = self._agenda.now
        for number in self._database.led_by(worker):
            self._repositories[number].lost = self._agenda.now

    def _mend(self, host: Host, heal: Callable[[], None]) -> None:
        heal()
        self._look_for_ends(host)
        worker = self._workers.get(host)
        if worker is None or worker.name not in self._database.beats:
            return
        # Nobody took its place.
        for gate in self._database.claimed_by(worker.name):
            gate.lost = None
        for number in self._database.led_by(worker.name):
            self._repositories[number].lost = None

    def _restart_database(self) -> None:
        self._later(OUTAGES, self._restart_database)
        if self._database.is_up and self._agenda.now < self._seconds:
            self._database.stop()
            self._agenda.after(self._random.uniform(1.0, 20.0), self._start_database)

    def _start_database(self) -> None:
        self._database.start()
        for host in self._hosts:
            self._look_for_ends(host)

    def _look_for_ends(self, host: Host) -> None:
        """Have the leaders of a host look for ends that they were not told of."""
        for _, leader in self._leads[host]:
            leader.look()

    def _later(self, mean: float, act: Callable[[], None]) -> None:
        self._agenda.after(self._random.expovariate(1.0 / mean), act)
