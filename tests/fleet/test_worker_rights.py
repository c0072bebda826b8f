"""Rights of workers: their role reaches queues and logs, and nothing of the record."""

from __future__ import annotations

import psycopg
import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.fleet.platforms import Platform

pytestmark = pytest.mark.fleet


def test_a_worker_with_the_role_of_workers_runs_gates_and_cannot_read_the_record(platform: Platform) -> None:
    platform.rows(f"CREATE ROLE build LOGIN PASSWORD '{PASSWORD}' IN ROLE aop_worker")
    url = platform.url.replace("//aop:", "//build:")
    worker = platform.worker(url=url)
    platform.feature("search")
    assert platform.gates("search").code == 0
    [run] = platform.evidence("search")
    assert run["worker"] == worker.id
    for sql in ("SELECT * FROM aop.journals", "DELETE FROM aop.all_documents", "UPDATE fleet.shape SET runs = 2"):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql)
