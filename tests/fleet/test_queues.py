"""Queues: how little workers ask of the database, and that a leader queues no more gates than its policy allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.adapters.fleet.rules import MOST_LOOKS, pause_after_look
from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import Platform, platform_in
from tests.racing import until
from tests.world import FILES

pytestmark = pytest.mark.fleet
FEATURES = 4
LIMIT = 2
POLICY = f"version: 1\nsupervisor:\n  max_active_features: {FEATURES}\n  max_parallel_gate_runs: {LIMIT}\n"
WATCH = """
    CREATE TABLE IF NOT EXISTS public.queued (number bigint);
    CREATE OR REPLACE FUNCTION public.count_queued() RETURNS trigger LANGUAGE plpgsql AS '
    BEGIN
        INSERT INTO public.queued SELECT count(*) FROM dbos.workflow_status
            WHERE queue_name = ''gates'' AND status IN (''ENQUEUED'', ''PENDING'');
        RETURN NULL;
    END';
    CREATE OR REPLACE TRIGGER count_queued AFTER INSERT ON dbos.workflow_status
        FOR EACH ROW EXECUTE FUNCTION public.count_queued();
"""


def test_a_worker_has_three_connections(platform: Platform) -> None:
    worker = platform.worker("one", "--queues", "gates,leads", "--places", "4")
    before = connections_of(platform)
    platform.feature("search")
    assert platform.gates("search").code == 0
    assert len(before) <= 3
    # Those that the leader of the gates had are gone with it.
    until(lambda: len(connections_of(platform)) <= 3, seconds=60)
    assert worker.end() == 0
    until(lambda: not connections_of(platform), seconds=60)


def connections_of(platform: Platform) -> list[int]:
    """Return the connections of this database but the one that asks."""
    sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return [pid for (pid,) in platform.rows(f"{sql} AND backend_type = 'client backend'")]


@pytest.mark.parametrize("workers", [1, 10, 100, 1000])
@pytest.mark.parametrize("queues", [1, 2, 4, 50])
def test_all_workers_together_look_at_most_400_times_a_second(workers: int, queues: int) -> None:
    looks_a_second = workers * queues / pause_after_look(workers, queues)
    assert looks_a_second <= MOST_LOOKS == 400


def test_a_leader_queues_no_more_gates_than_its_policy_allows(cluster: str, tmp_path: Path) -> None:
    files = {**FILES, "check.sh": "sleep 0.3; test ! -e src/broken.txt\n", "agentic/orchestrator/policy.yaml": POLICY}
    specs = tmp_path / "specs"
    specs.mkdir()
    for number in range(FEATURES):
        (specs / f"plain_{number}.md").write_text(f"Write plain_{number}.\n")
    agent = {"AOP_CUSTOM_AGENT": agent_command(tmp_path / "agent"), "AOP_AGENT_PROVIDER": "custom"}
    with platform_in(tmp_path, cluster, files) as platform:
        platform.worker("one", "--places", str(2 * FEATURES))
        platform.rows(WATCH)
        try:
            ran = platform.aop("run", "-fl", str(specs), "--wait", "--json", env=agent)
            assert ran.code == 0, ran.err[-2000:]
            counts = [number for (number,) in platform.rows("SELECT number FROM public.queued")]
        finally:
            platform.rows("DROP TRIGGER count_queued ON dbos.workflow_status")
    assert (len(counts) >= 2 * FEATURES, max(counts)) == (True, LIMIT)
