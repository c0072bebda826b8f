"""Lost workers: killed, frozen or cut off, a worker's gate goes on elsewhere, and is recorded once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.adapters.fleet.liveness import FENCED
from tests.adapters.storage.postgres_clusters import Cluster, running_cluster_at
from tests.fleet.hosts import Hosts, hosts
from tests.fleet.platforms import Platform, WorkerProcess, platform_in, taker_of
from tests.racing import until
from tests.world import FILES

pytestmark = pytest.mark.fleet
DOWN_SECONDS = 3.0
SLOW_GATE = {**FILES, "check.sh": "echo begun; sleep 4; echo done\n"}
TAKEN_OVER_SECONDS = 5.0
"""On an idle machine; a busy one delays the processes themselves, and is given some more."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(machines: Hosts) -> Iterator[Cluster]:
    with running_cluster_at(machines.address) as made:
        yield made


@pytest.fixture
def platform(cluster: Cluster, tmp_path: Path) -> Iterator[Platform]:
    with platform_in(tmp_path, cluster.url, SLOW_GATE) as made:
        yield made


def start_workers(platform: Platform, machines: Hosts, count: int = 3) -> list[WorkerProcess]:
    """Start a worker on each host, at once."""
    started = [
        platform.worker(f"host{number}", prefix=machines.prefix(number), waits=False) for number in range(1, count + 1)
    ]
    for worker in started:
        worker.await_start()
    return started


def lose(lost: WorkerProcess, how: str, machines: Hosts, number: int) -> None:
    """Kill or freeze a worker, or cut its host off."""
    if how == "cut":
        machines.cut(number)
    else:
        # `ip netns exec` has become the worker itself.
        os.kill(lost.process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)


def bring_back(lost: WorkerProcess, how: str, machines: Hosts, number: int) -> None:
    """Thaw a worker, or join its host again: it was declared dead, and ends itself."""
    if how == "cut":
        machines.join(number)
    else:
        os.kill(lost.process.pid, signal.SIGCONT)
    assert lost.process.wait(60) == FENCED
    until(lambda: "it was declared dead" in lost.errors.read_text(), seconds=30)


@pytest.mark.parametrize("how", ["killed", "frozen", "cut"])
def test_a_lost_workers_gate_goes_on_elsewhere_and_is_recorded_once(
    platform: Platform, machines: Hosts, how: str
) -> None:
    workers = start_workers(platform, machines)
    platform.feature("search")
    gate = platform.started_gates("search", "op-lost")
    lost = taker_of(platform, workers)
    number = workers.index(lost) + 1
    # Who has just started judges nobody.
    until(lambda: platform.rows("SELECT 1 FROM fleet.judge WHERE until > clock_timestamp()") != [], seconds=60)
    lose(lost, how, machines, number)
    begun = time.monotonic()
    taker = taker_of(platform, [worker for worker in workers if worker is not lost])
    taken_over = time.monotonic() - begun
    out, err = gate.communicate(timeout=120)
    assert gate.returncode == 0, out + err
    if how != "killed":
        bring_back(lost, how, machines, number)
    [run] = platform.evidence("search")
    assert run["worker"] == taker.id != lost.id
    assert platform.listed()[lost.label]["state"] == "gone"
    assert steps_left(platform) == []
    assert taken_over < TAKEN_OVER_SECONDS * max(1.0, os.getloadavg()[0] / 2)


def test_a_restart_of_the_database_costs_no_gate(platform: Platform, cluster: Cluster, machines: Hosts) -> None:
    workers = start_workers(platform, machines)
    platform.feature("search")
    gate = platform.started_gates("search", "op-restart")
    taker = taker_of(platform, workers)
    cluster.stop()
    ends = time.monotonic() + DOWN_SECONDS
    until(lambda: time.monotonic() >= ends)
    cluster.start()
    gate.communicate(timeout=120)
    # The locks of that call ended with its session, so it recorded nothing; sent again, it finds the worker's answer.
    again = platform.started_gates("search", "op-restart")
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, out + err
    [run] = platform.evidence("search")
    assert run["worker"] == taker.id
    assert [worker.process.poll() for worker in workers] == [None] * len(workers)
    assert (platform.root / run["steps"][0]["log_path"]).read_text() == "begun\ndone\n"
    assert sum(worker.errors.read_text().count("step 1 of 1") for worker in workers) == 1


def steps_left(platform: Platform) -> list[str]:
    """Return the processes of gates that still run in a clone of this platform."""
    found = subprocess.run(["pgrep", "-af", str(platform.folder)], capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines() if "check.sh" in line]
