"""Reliance on DBOS: what workers use of it that is not public, pinned."""

from __future__ import annotations

from importlib.metadata import version
from uuid import uuid4

import psycopg
import pytest
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from aop.adapters.fleet.connections import engine_address
from aop.adapters.fleet.liveness import put_back
from aop.adapters.fleet.platform_shape import APPLICATION, VERSION
from tests.fleet.platforms import Platform

pytestmark = pytest.mark.fleet
ROW = "SELECT status, queue_name, owner_xid, started_at_epoch_ms FROM dbos.workflow_status WHERE workflow_uuid = %s"


def test_the_version_is_the_one_whose_internals_were_read() -> None:
    assert version("dbos").startswith("3.3.")


def test_a_run_that_was_put_back_is_what_the_recovery_of_dbos_makes_of_it(platform: Platform) -> None:
    address = engine_address(platform.url)
    client = DBOSClient(
        system_database_url=address, serializer=DBOSPortableJSONSerializer(), application_name=APPLICATION
    )
    try:
        ours, theirs = str(uuid4()), str(uuid4())
        for run in (ours, theirs):
            client.enqueue(
                {"queue_name": "gates", "workflow_name": "gate", "workflow_id": run, "app_version": VERSION}, {}
            )
    finally:
        client.destroy()
    claim = (
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = %s, owner_xid = 'someone',"
        " started_at_epoch_ms = 5, application_version = %s WHERE workflow_uuid = %s"
    )
    platform.rows(claim, "dead-one", VERSION, theirs)
    DBOS(
        config={
            "name": APPLICATION,
            "system_database_url": address,
            "executor_id": "test",
            "application_version": VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
            "run_migrations": False,
        }
    )
    DBOS.listen_queues([])
    DBOS.launch()
    try:
        DBOS._recover_pending_workflows(["dead-one"])
    finally:
        DBOS.destroy(destroy_registry=True)
    platform.rows(claim, "dead-two", VERSION, ours)
    with psycopg.connect(platform.url, autocommit=True) as connection:
        put_back(connection)
    assert platform.rows(ROW, ours) == platform.rows(ROW, theirs) == [("ENQUEUED", "gates", None, None)]
    platform.rows("DELETE FROM dbos.workflow_status WHERE workflow_uuid = ANY(%s)", [ours, theirs])
