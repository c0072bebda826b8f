"""Lost leaders: one that is cut off, and one that is lost together with the worker that has its gate."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aop.adapters.fleet.liveness import FENCED
from tests.adapters.storage.postgres_clusters import Cluster, running_cluster_at
from tests.fleet.hosts import Hosts, hosts
from tests.fleet.platforms import WorkerProcess, platform_in, taker_of
from tests.fleet.runs import LedRun
from tests.racing import until
from tests.world import FILES, git

pytestmark = pytest.mark.fleet
SECONDS = 240.0
FEATURES = ("held_one", "held_two")
SLOW_GATE = {**FILES, "check.sh": "sleep 3\n"}
LEADERS, STANDBYS, THIRD = 1, 2, 3
REPLACED = 5
"""The exit code of a leader whose place another one has taken."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(machines: Hosts) -> Iterator[Cluster]:
    with running_cluster_at(machines.address) as made:
        yield made


@pytest.mark.parametrize(
    ("how", "beside"), [("cut", STANDBYS), ("killed", LEADERS), ("frozen", LEADERS), ("cut", LEADERS)]
)
def test_another_machine_ends_the_run_of_a_lost_leader_and_nothing_is_recorded_twice(
    cluster: Cluster, machines: Hosts, tmp_path: Path, how: str, beside: int
) -> None:
    """`beside`: the host of the worker that has the first gate; if it is the leader's, both are lost at once."""
    with platform_in(tmp_path, cluster.url, SLOW_GATE) as platform, ExitStack() as ends:
        ends.callback(machines.join, LEADERS)
        first = platform.worker("first", "--places", "2", prefix=machines.prefix(beside))
        git(tmp_path, "clone", "-q", str(platform.root), "standby")
        run = LedRun(platform, FEATURES)
        leader = run.lead(prefix=machines.prefix(LEADERS))
        ends.callback(leader.kill)
        until(lambda: len(run.statuses()) == len(FEATURES), seconds=SECONDS)
        standby = run.stand_by(tmp_path / "standby", machines.prefix(STANDBYS))
        ends.callback(standby.kill)
        until(lambda: len(run.machines()) > 1, seconds=SECONDS)
        (run.agent / "go").touch()
        taker_of(platform, [first])
        lose(lost := [leader.pid, *([first.process.pid] if beside == LEADERS else [])], how, machines)
        second = platform.worker("second", "--places", "2", prefix=machines.prefix(THIRD))
        assert standby.wait(SECONDS) == 0, run.output("standby").read_text()
        events = run.events()
        bring_back(lost, how, machines)
        assert leader.wait(SECONDS) == (-signal.SIGKILL if how == "killed" else REPLACED), run.output().read_text()
        assert_fenced(first, how, is_lost=beside == LEADERS)
        assert (second.process.poll(), run.events()) == (None, events)
        assert run.statuses() == dict.fromkeys(FEATURES, "ready_to_merge")
        assert {events[("plan_accepted", name)] for name in FEATURES} == {1}
        # The gates that were lost were recorded by nobody: of each feature the fast and the full ones, once.
        assert {events[("gates_ran", name)] for name in FEATURES} == {2}


def lose(pids: list[int], how: str, machines: Hosts) -> None:
    if how == "cut":
        machines.cut(LEADERS)
        return
    for pid in pids:
        os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)


def bring_back(pids: list[int], how: str, machines: Hosts) -> None:
    if how == "cut":
        machines.join(LEADERS)
    elif how == "frozen":
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def assert_fenced(worker: WorkerProcess, how: str, *, is_lost: bool) -> None:
    """A worker that was lost has been declared dead, and ends itself."""
    if not is_lost:
        assert worker.process.poll() is None
    elif how == "killed":
        assert worker.process.wait(SECONDS) == -signal.SIGKILL
    else:
        assert worker.process.wait(SECONDS) == FENCED
        until(lambda: "it was declared dead" in worker.errors.read_text(), seconds=30)
