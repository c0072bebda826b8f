"""A run with workers on three hosts: every feature is ready, proven by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import Cluster, running_cluster_at
from tests.cli.scripted_agents import agent_command
from tests.fleet.hosts import Hosts, hosts
from tests.fleet.platforms import platform_in
from tests.world import FILES

pytestmark = pytest.mark.fleet
FEATURES = 10
POLICY = """\
version: 1
supervisor:
  max_active_features: 10
  max_parallel_gate_runs: 3
"""
FILES_OF_RUN = {
    **FILES,
    # Long enough that no worker is back before the others are asked.
    "check.sh": "sleep 1; test ! -e src/broken.txt\n",
    "agentic/orchestrator/policy.yaml": POLICY,
}


@pytest.fixture(scope="module")
def machines() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


@pytest.fixture(scope="module")
def database(machines: Hosts) -> Iterator[Cluster]:
    with running_cluster_at(machines.address) as made:
        yield made


def test_ten_features_are_ready_and_three_workers_have_proven_them(
    database: Cluster, machines: Hosts, tmp_path: Path
) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    names = [f"plain_{number}" for number in range(FEATURES)]
    for name in names:
        (specs / f"{name}.md").write_text(f"Write {name}.\n")
    agent = {"AOP_CUSTOM_AGENT": agent_command(tmp_path / "agent"), "AOP_AGENT_PROVIDER": "custom"}
    with platform_in(tmp_path, database.url, FILES_OF_RUN) as platform:
        workers = [platform.worker(f"host{at}", prefix=machines.prefix(at), waits=False) for at in (1, 2, 3)]
        for worker in workers:
            worker.await_start()
        ran = platform.aop("run", "-fl", str(specs), "--wait", "--json", env=agent)
        assert ran.code == 0, platform.aop("status", "plain_0").out + ran.err[-3000:]
        rows = platform.aop("status", "--json").json["data"]["features"]
        assert {row["feature_id"]: row["status"] for row in rows} == dict.fromkeys(names, "ready_to_merge")
        runs = [run for name in names for run in platform.evidence(name)]
        assert {run.get("worker") for run in runs} == {worker.id for worker in workers}
        verified = platform.aop("evidence", "verify")
        assert verified.code == 0, verified.out + verified.err
        assert [worker.end() for worker in workers] == [0, 0, 0]
