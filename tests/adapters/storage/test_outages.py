"""Outages of PostgreSQL: waited for by who asked for it, refused to all others; and the database of tests."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from aop.adapters.storage.record.postgres.reach.outage import Outage
from aop.core.errors import DatabaseUnavailable, Fault, RecordLost
from aop.kernel.record.port import newest_seq
from tests.adapters.storage.postgres_clusters import Cluster, needs_postgres, running_cluster_at
from tests.adapters.storage.records import place
from tests.racing import started, until

pytestmark = needs_postgres


class Left(Exception):
    """The end of a process, in a test that goes on."""


def leave(refusal: DatabaseUnavailable) -> NoReturn:
    raise Left(refusal.message)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster_at("127.0.0.1") as made:
        yield made


def last_number(record: PostgresRecord) -> int:
    with record.read() as view:
        return newest_seq(view)


def test_one_who_leaves_may_look_for_the_database_once_more() -> None:
    def look_again(refusal: DatabaseUnavailable) -> NoReturn:
        outage.end()
        leave(refusal)

    def wait() -> None:
        with pytest.raises(Left):
            outage.wait(DatabaseUnavailable("db", "gone"))

    outage = Outage(lambda _said: None, lambda: True, look_again)
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_read_waits_until_the_database_is_back_and_says_so(cluster: Cluster) -> None:
    record, said = PostgresRecord(place(cluster.url, "waits")), list[str]()
    assert last_number(record) == 0
    record.wait_out(Outage(said.append, lambda: False, leave))
    cluster.stop()
    try:
        read = threading.Thread(target=last_number, args=(record,), daemon=True)
        read.start()
        until(lambda: bool(said), seconds=60)
        assert read.is_alive()
    finally:
        cluster.start()
    read.join(60)
    assert not read.is_alive()
    assert "cannot be used" in said[0]
    assert "Waiting for it for at most 300 s." in said[0]
    assert "The database is back after" in said[-1]
    assert len(said) == 2
    record.close()


@pytest.mark.parametrize("why", ["late", "stopped"])
def test_who_waits_leaves_when_the_time_is_over_or_a_person_stops_it(cluster: Cluster, why: str) -> None:
    record = PostgresRecord(place(cluster.url, "leaves"))
    seconds = 0.0 if why == "late" else 300.0
    record.wait_out(Outage(lambda _line: None, lambda: why == "stopped", leave, seconds=seconds))
    last_number(record)
    cluster.stop()
    try:
        with pytest.raises(Left, match="cannot be used"):
            last_number(record)
    finally:
        cluster.start()
    record.close()


def change_without_a_database(record: PostgresRecord, cluster: Cluster) -> None:
    with record.write() as tx:
        cluster.stop()
        tx.mark_unshown("feature", "one")


def test_who_does_not_wait_is_refused_and_a_change_that_was_under_way_is_lost(cluster: Cluster) -> None:
    record = PostgresRecord(place(cluster.url, "refused"))
    last_number(record)
    with pytest.raises(RecordLost):
        change_without_a_database(record, cluster)
    with pytest.raises(DatabaseUnavailable):
        last_number(record)
    cluster.start()
    with record.read() as view:
        assert view.unshown() == ()
    record.close()


def test_a_statement_that_fails_is_not_a_lost_connection(cluster: Cluster) -> None:
    record = PostgresRecord(place(cluster.url, "fails"))
    with pytest.raises(Fault) as fault, record.statements() as sql:
        sql.execute("SELECT 1 / 0")
    assert not isinstance(fault.value, RecordLost)
    record.close()


HOLDER = """\
from tests.adapters.storage.postgres_clusters import running_cluster_at
with running_cluster_at("127.0.0.1") as cluster:
    Path(sys.argv[1]).write_text(str(cluster.folder))
    ready()
"""


def test_a_killed_test_leaves_no_database_behind(tmp_path: Path) -> None:
    child = started(HOLDER, tmp_path / "where")
    folder = Path((tmp_path / "where").read_text())
    server = int((folder / "data/postmaster.pid").read_text().split()[0])
    with child:
        child.kill()
    until(lambda: not folder.exists() and not is_alive(server), seconds=60)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
