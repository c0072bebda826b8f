"""The lease of a supervisor, as a file and as a row of a database: one holder, and another one when that is dead."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from aop.adapters.machine.supervisor_lease import FileLeases, LeaseHolder, SupervisorLeases
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from aop.core.errors import SupervisorRunning
from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.adapters.storage.records import place
from tests.racing import running, until

SINCE = "2026-01-02T03:04:05.678Z"
HOLD = """
from tests.adapters.machine.test_supervisor_lease import SINCE, opened
from aop.adapters.machine.supervisor_lease import LeaseHolder
with opened(sys.argv[1]) as leases, leases.take() as lease:
    lease.sign(LeaseHolder(pid=os.getpid(), since=SINCE, features=("one",)))
    ready()
"""


@contextmanager
def opened(where: str) -> Iterator[SupervisorLeases]:
    """Open the lease at an address: the path of a file, or a database and the name of a repository."""
    if "#" not in where:
        yield FileLeases(Path(where))
        return
    with closing(record_at(where)) as record:
        yield record.leases()


def record_at(where: str) -> PostgresRecord:
    """Open the record at an address in a database; it is known there from then on."""
    url, _, name = where.partition("#")
    record = PostgresRecord(place(url, name))
    record.number()
    return record


def newest_beat(cluster: str) -> object:
    """Return the time of the newest beat of any leader."""
    with psycopg.connect(cluster) as admin:
        return admin.execute("SELECT max(beat) FROM aop.leaders").fetchone()


def is_gone_after(seconds: int, leases: SupervisorLeases, pid: int, cluster: str) -> bool:
    """Tell whether a leader counts as dead if its last beat was so long ago by the clock of the database."""
    with psycopg.connect(cluster) as admin:
        ago = "clock_timestamp() - make_interval(secs => %s)"
        admin.execute(f"UPDATE aop.leaders SET beat = {ago} WHERE pid = %s", (seconds, pid))
    return leases.holder() is None


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


@pytest.fixture(params=["file", pytest.param("postgres", marks=needs_postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "supervisor.lock")
    return f"{request.getfixturevalue('cluster')}#{uuid4().hex}"


def test_one_process_leads_and_a_second_one_is_told_which(where: str) -> None:
    with opened(where) as leases, running(HOLD, where) as child:
        holder = LeaseHolder(pid=child.pid, since=SINCE, features=("one",))
        assert leases.holder() == holder
        with pytest.raises(SupervisorRunning, match=f"process {child.pid}, since {SINCE}"), leases.take():
            pass
        child.communicate("\n")
        assert (leases.holder(), leases.last_holder()) == (None, holder)
        with leases.take():
            assert leases.holder() is not None
        assert leases.holder() is None


def test_the_place_of_a_killed_leader_is_free_soon(where: str) -> None:
    with opened(where) as leases, running(HOLD, where) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        until(lambda: leases.holder() is None)
        with leases.take():
            pass


LEAD_WITH_A_LOCK = """
from contextlib import closing
from tests.adapters.machine.test_supervisor_lease import BUSY, record_at
with closing(record_at(sys.argv[1])) as record, record.leases().take():
    with record.locks.held("mine", wait_seconds=0.0, refusal=BUSY):
        ready()
"""
BUSY = SupervisorRunning("The lock is held.")


@needs_postgres
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_leader_is_replaced_within_five_seconds_and_its_locks_are_freed(
    cluster: str, number: signal.Signals
) -> None:
    where = f"{cluster}#{uuid4().hex}"
    with closing(record_at(where)) as record, running(LEAD_WITH_A_LOCK, where) as child:
        leases = record.leases()
        assert leases.holder() is not None
        child.send_signal(number)
        until(lambda: is_gone_after(5, leases, child.pid, cluster))
        with leases.take(), record.locks.held("mine", wait_seconds=30.0, refusal=BUSY):
            beat = newest_beat(cluster)
            child.send_signal(signal.SIGCONT)
            until(lambda: newest_beat(cluster) != beat)
            holder = leases.holder()
            assert holder is not None
            assert holder.pid == os.getpid()


@needs_postgres
def test_a_leader_on_another_machine_is_asked_to_stop_and_gets_no_signal_from_here(cluster: str) -> None:
    where = f"{cluster}#{uuid4().hex}"
    with opened(where) as leases, running(HOLD, where) as child:
        with psycopg.connect(cluster, autocommit=True) as admin:
            admin.execute("UPDATE aop.leaders SET host = 'elsewhere' WHERE pid = %s", (child.pid,))
        holder = leases.holder()
        assert holder is not None
        assert (holder.host, holder.name) == ("elsewhere", f"process {child.pid} on elsewhere")
        leases.ask_to_stop()
        assert child.wait(60) == -signal.SIGTERM
        until(lambda: leases.holder() is None)


@needs_postgres
def test_a_leader_outlives_a_lost_connection(cluster: str) -> None:
    where = f"{cluster}#{uuid4().hex}"
    with opened(where) as leases, running(HOLD, where) as child:
        with psycopg.connect(cluster, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(activity.pid) FROM pg_stat_activity AS activity"
                " JOIN aop.leaders ON process = application_name WHERE leaders.pid = %s",
                (child.pid,),
            )
        beat = newest_beat(cluster)
        until(lambda: newest_beat(cluster) != beat)
        holder = leases.holder()
        assert holder is not None
        assert holder.pid == child.pid
