"""`python -m bench.fleet`: gates on real workers, with PostgreSQL and hosts that are network namespaces."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
from msgspec import Struct

from tests.adapters.storage.postgres_clusters import running_cluster_at
from tests.cli.run.test_machines import Fleet, shop_in
from tests.fleet.hosts import Hosts, hosts
from tests.fleet.platforms import Platform, WorkerProcess, platform_in
from tests.racing import until
from tests.world import FILES, World, files, git, make_repository

PLACES = 2


class Leader:
    """A repository with features, each of which changes a file of its own."""

    def __init__(self, root: Path, env: Mapping[str, str], features: int = 1) -> None:
        self._world = World(root, {"AOP_DATABASE": "", "AOP_HUB": "", **env})
        self._root = root
        self.calls = 0
        self._versions = dict.fromkeys((f"feature_{number}" for number in range(features)), 0)
        for name in self._versions:
            self._world.plan(name, files=files(create=(f"src/{name}.txt",)))

    def close(self) -> None:
        self._world.close()

    def change(self, feature: str = "feature_0") -> None:
        """Have another tree, so that the commit of the next gates is one that no machine has yet."""
        path, old = f"src/{feature}.txt", self._versions[feature]
        self._versions[feature] = old + 1
        before = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n" if old else ""
        diff = before or f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n"
        self._world.patch(feature, f"{diff}+{old + 1}\n")

    def run_gates(self, feature: str = "feature_0") -> None:
        """Run the gates once more."""
        self.calls += 1
        self._world.ok("gates.run", feature_id=feature, mode="fast", force=True)

    def gate_seconds(self, rounds: int) -> list[float]:
        """Run gates of a new commit each time; return how long each took, without the first."""
        taken = []
        for _ in range(rounds + 1):
            self.change()
            began = time.perf_counter()
            self.run_gates()
            taken.append(time.perf_counter() - began)
        return taken[1:]

    def gates_per_second(self, rounds: int) -> float:
        """Run the gates of all features at once, some times each."""

        def run(feature: str) -> None:
            for _ in range(rounds):
                self.run_gates(feature)

        for feature in self._versions:
            self.change(feature)
        began = time.perf_counter()
        with ThreadPoolExecutor(len(self._versions)) as threads:
            tuple(threads.map(run, self._versions))
        return rounds * len(self._versions) / (time.perf_counter() - began)

    def recorded(self) -> int:
        """Return how many gate runs the files of the record have."""
        return sum(1 for _ in self._root.glob("agentic/features/*/evidence/*.json"))


def start_workers(platform: Platform, machines: Hosts, numbers: Sequence[int]) -> dict[int, WorkerProcess]:
    """Start a worker on each of some hosts, at once; one that replaces another has a folder of its own."""
    started = {
        number: platform.worker(
            f"host{number}-{uuid4().hex[:8]}", "--places", str(PLACES), prefix=machines.prefix(number), waits=False
        )
        for number in numbers
    }
    for worker in started.values():
        worker.await_start()
    return started


KINDS = ("killed", "cut", "frozen")
SECONDS = 120.0


class Takeovers(Struct, frozen=True):
    """How long takeovers took, in seconds."""

    n: int
    p50: float
    max: float


def summary(taken: list[float]) -> Takeovers:
    """Return the figures of some takeovers."""
    return Takeovers(len(taken), round(median(taken), 2), round(max(taken), 2)) if taken else Takeovers(0, 0.0, 0.0)


class LostWorkers:
    """Three workers on three hosts; the one that has the gate is lost, and replaced after the gate has ended."""

    def __init__(self, platform: Platform, machines: Hosts, leader: Leader) -> None:
        self._platform = platform
        self._machines = machines
        self._leader = leader
        self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(platform.url, autocommit=True)
        self._workers = start_workers(platform, machines, (1, 2, 3))

    def close(self) -> None:
        """Kill the workers that are left."""
        self._connection.close()
        for worker in self._workers.values():
            worker.process.kill()
            worker.process.wait()

    def lose(self, how: str) -> float:
        """Lose the worker that has the gate; return how long it takes until another one has it."""
        self._await_judges()
        self._leader.change()
        with ThreadPoolExecutor(1) as thread:
            gate = thread.submit(self._leader.run_gates)
            number = self._taker(self._workers)
            lost = self._workers.pop(number)
            self._break(lost, how, number)
            began = time.monotonic()
            self._taker(self._workers)
            taken = time.monotonic() - began
            gate.result()
        self._mend(lost, how, number)
        self._workers |= start_workers(self._platform, self._machines, (number,))
        return taken

    def _taker(self, workers: dict[int, WorkerProcess]) -> int:
        """Return the host of the worker that runs the one gate."""
        found: list[int] = []

        def is_taken() -> bool:
            sql = "SELECT executor_id FROM dbos.workflow_status WHERE status = 'PENDING' AND workflow_uuid LIKE %s"
            rows = self._connection.execute(sql, (f"{self._platform.env['AOP_REPOSITORY']}/%",)).fetchall()
            found[:] = [number for number, worker in workers.items() if (worker.id,) in rows]
            return bool(found)

        until(is_taken, seconds=SECONDS)
        return found[0]

    def _await_judges(self) -> None:
        """Wait until each of them may judge: who has just started judges nobody."""
        sql = "SELECT 1 FROM fleet.workers WHERE gone IS NULL AND began > clock_timestamp() - interval '5 seconds'"
        until(lambda: self._connection.execute(sql).fetchone() is None, seconds=SECONDS)

    def _break(self, lost: WorkerProcess, how: str, number: int) -> None:
        if how == "cut":
            self._machines.cut(number)
        else:
            # `ip netns exec` has become the worker itself.
            os.kill(lost.process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)

    def _mend(self, lost: WorkerProcess, how: str, number: int) -> None:
        """Thaw or join it: it was declared dead, and ends itself."""
        if how == "cut":
            self._machines.join(number)
        elif how == "frozen":
            os.kill(lost.process.pid, signal.SIGCONT)
        lost.process.wait(SECONDS)


def leader_takeovers(url: str, rounds: int) -> list[float]:
    """Kill the leader of a repository again and again, in turns on two machines, while the other one stands by."""
    with tempfile.TemporaryDirectory(prefix="aop-bench-") as name:
        folder = Path(name)
        shop = shop_in(folder / "a", url, f"led-{folder.name}")
        git(folder, "init", "-q", "--bare", str(folder / "hub.git"))
        shop.env |= {"AOP_HUB": str(folder / "hub.git")}
        shop.wants("held_one")
        fleet = Fleet(shop, folder)
        machines = [fleet.here, fleet.there]
        children = [fleet.here.start("run", "-fl", str(shop.specs), "--wait")]
        with psycopg.connect(url, autocommit=True) as connection:
            try:
                return [_lead_lost(connection, fleet.name, children, machines[1 - turn % 2]) for turn in range(rounds)]
            finally:
                (shop.agent / "go").touch()
                for child in children:
                    child.kill()
                    child.wait()


def _lead_lost(
    connection: psycopg.Connection[tuple[Any, ...]], name: str, children: list[subprocess.Popen[bytes]], there: Any
) -> float:
    sql = (
        "SELECT token FROM aop.leaders JOIN aop.repositories ON repositories.number = leaders.repository"
        " WHERE repositories.name = %s AND note <> ''"
    )
    _until_row(connection, sql, (name,))
    [[token]] = connection.execute(sql, (name,)).fetchall()
    children.append(there.start("resume", "--standby", "--wait"))
    processes = (
        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE %s HAVING count(DISTINCT application_name) > 1"
    )
    _until_row(connection, processes, ("aop %",))
    # It has a connection; from here to its first look at the row are a few milliseconds.
    time.sleep(1.0)
    children[-2].kill()
    began = time.monotonic()
    _until_row(connection, sql.replace("note <> ''", "token <> %s"), (name, token))
    taken = time.monotonic() - began
    children[-2].wait()
    return taken


def _until_row(connection: psycopg.Connection[tuple[Any, ...]], sql: str, values: tuple[str, ...]) -> None:
    def is_there() -> bool:
        try:
            return connection.execute(sql, values).fetchone() is not None
        except psycopg.errors.UndefinedTable:
            # The first leader makes the tables.
            return False

    until(is_there, seconds=SECONDS)


ROUNDS = 20
MOST_WORKERS = 3
GATE = {**FILES, "check.sh": "sleep 1\n"}
LONG_GATE = {**FILES, "check.sh": "sleep 4\n"}
"""Long enough that its worker is lost while it runs."""


def main() -> int:
    """Measure, and print what was found as JSON."""
    arguments = _parser().parse_args()
    # The database and the hosts are removed then, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="aop-bench-") as name, hosts(MOST_WORKERS) as machines:
        folder = Path(name)
        with running_cluster_at(machines.address) as cluster:
            twice = lost = 0
            for measure in (_speed, _takeovers):
                figures, calls, recorded = measure(folder / measure.__name__, cluster.url, machines, arguments.n)
                found |= figures
                twice, lost = twice + max(0, recorded - calls), lost + max(0, calls - recorded)
            _say("leader")
            found["takeover_seconds"]["leader"] = summary(leader_takeovers(cluster.url, arguments.n))
    found |= {"recorded_twice": twice, "lost": lost}
    if not arguments.json:
        _say(f"load {os.getloadavg()[0]:.1f}")
    print(json.dumps(msgspec.to_builtins(found), indent=None if arguments.json else 2))
    return 0


def _speed(folder: Path, url: str, machines: Hosts, rounds: int) -> tuple[dict[str, Any], int, int]:
    """Measure one gate at a time here and there, and many at once on more and more workers."""
    _say("gate, here")
    with closing(Leader(make_repository(folder / "alone", GATE), {})) as alone:
        local = median(alone.gate_seconds(rounds)) * 1000
    # The folder is the name of the repository.
    (folder / "fleet").mkdir()
    with platform_in(folder / "fleet", url, GATE) as platform:
        features = 2 * PLACES * MOST_WORKERS
        with closing(Leader(platform.root, platform.env, features)) as leader:
            throughput: list[dict[str, float]] = []
            remote = 0.0
            for number in range(1, MOST_WORKERS + 1):
                _say(f"gates on {number} workers")
                start_workers(platform, machines, (number,))
                if number == 1:
                    remote = median(leader.gate_seconds(rounds)) * 1000
                # Each worker has a clone by then.
                leader.gates_per_second(1)
                reached = leader.gates_per_second(max(1, rounds // 4))
                one = throughput[0]["gates_per_second"] if throughput else reached
                share = round(reached / one / number, 3)
                throughput.append({"workers": number, "gates_per_second": round(reached, 3), "share": share})
            gate = {"local_ms": round(local, 1), "remote_ms": round(remote, 1), "ratio": round(remote / local, 3)}
            return {"gate": gate, "throughput": throughput}, leader.calls, leader.recorded()


def _takeovers(folder: Path, url: str, machines: Hosts, rounds: int) -> tuple[dict[str, Any], int, int]:
    """Lose workers, one way after the other."""
    folder.mkdir()
    with platform_in(folder, url, LONG_GATE) as platform, closing(Leader(platform.root, platform.env)) as leader:
        found = {}
        with closing(LostWorkers(platform, machines, leader)) as workers:
            for kind in KINDS:
                _say(kind)
                found[kind] = summary([workers.lose(kind) for _ in range(rounds)])
        return {"takeover_seconds": found}, leader.calls, leader.recorded()


def _say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--n", type=int, default=ROUNDS, help=f"rounds of each measurement; {ROUNDS} unless told")
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
