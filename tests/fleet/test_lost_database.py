"""A lost database: leader and workers wait for it and go on, and no gate begins twice."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import Cluster, running_cluster_at
from tests.fleet.platforms import Platform, WorkerProcess, platform_in
from tests.fleet.runs import LedRun
from tests.racing import until
from tests.world import FILES

pytestmark = pytest.mark.fleet
OUTAGES = (3.0, 30.0)
SECONDS = 240.0
SLOW_GATE = {**FILES, "check.sh": "echo begun; sleep 5; echo done\n"}
_TAKEN = "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'PENDING' AND workflow_uuid LIKE %s"


@pytest.fixture(scope="module")
def database() -> Iterator[Cluster]:
    with running_cluster_at("127.0.0.1") as made:
        yield made


def restart(database: Cluster, seconds: float) -> None:
    """Stop the database as a power cut would, and start it after some time."""
    database.stop()
    ends = time.monotonic() + seconds
    until(lambda: time.monotonic() >= ends)
    database.start()


def next_gates(platform: Platform, leader: subprocess.Popen[bytes], seen: set[str]) -> set[str]:
    """Return the gate runs that a worker has, as soon as there are new ones."""
    found = set[str]()

    def are_new() -> bool:
        found.update(row[0] for row in platform.rows(_TAKEN, f"{platform.env['AOP_REPOSITORY']}/%"))
        return leader.poll() is not None or not found <= seen

    until(are_new, seconds=SECONDS)
    return found


def steps_begun(workers: list[WorkerProcess]) -> int:
    return sum(worker.errors.read_text().count("step 1 of 1") for worker in workers)


def test_a_run_waits_for_a_database_that_is_away_for_3_and_for_30_seconds_and_no_gate_begins_twice(
    database: Cluster, tmp_path: Path
) -> None:
    with platform_in(tmp_path, database.url, SLOW_GATE) as platform:
        workers = [platform.worker("one", waits=False), platform.worker("two", waits=False)]
        for worker in workers:
            worker.await_start()
        run, seen = LedRun(platform, ["plain_one"]), set[str]()
        leader = run.lead()
        try:
            for seconds in OUTAGES:
                seen |= next_gates(platform, leader, seen)
                restart(database, seconds)
            code = leader.wait(SECONDS)
        finally:
            leader.kill()
            leader.wait()
        said = run.output().read_text()
        assert code == 0, said
        assert (said.count("Waiting for it for at most 300 s"), said.count("The database is back")) == (2, 2), said
        assert "gates run on this machine" not in said
        assert [worker.process.poll() for worker in workers] == [None, None]
        assert run.statuses() == {"plain_one": "ready_to_merge"}
        proofs = platform.evidence("plain_one")
        assert {proof["worker"] for proof in proofs} <= {worker.id for worker in workers}
        assert steps_begun(workers) == len(proofs) == len(OUTAGES)
        assert platform.aop("evidence", "verify").code == 0
