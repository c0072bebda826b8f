"""Takeovers of lost workers and leaders: how long until another one has what they had."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from msgspec import Struct

from bench.leading import Leader, start_workers
from tests.cli.run.test_machines import Fleet, shop_in
from tests.fleet.hosts import Hosts
from tests.fleet.platforms import Platform, WorkerProcess
from tests.racing import until
from tests.world import git

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
