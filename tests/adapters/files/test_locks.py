"""Locks between real processes: they end with their holder, and nobody believes to hold what another one holds."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from aop.adapters.files.locks import FileLocks, locked_file
from aop.core.errors import Fault, OperationInProgress, WorktreeBusy
from aop.core.ids import FeatureId, OperationId
from tests.adapters.files.lock_places import Machine
from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.adapters.storage.test_record import event
from tests.racing import race, running, until

OPERATION = OperationId("op-1")
FEATURE = FeatureId("one")

HOLD = """
from tests.adapters.files.lock_places import open_locks
locks = open_locks(sys.argv[1])
held = {
    "operation": lambda: locks.operation("op-1", wait_seconds=0.0),
    "worktree": lambda: locks.worktree("one", wait_seconds=0.0),
    "files": locks.files,
    "base_branch": locks.base_branch,
    "gate_slot": lambda: locks.gate_slot(1),
}[sys.argv[2]]()
with held:
    ready()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "private" / "locks"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


@pytest.fixture(params=["files", pytest.param("postgres", marks=needs_postgres)])
def machine(request: pytest.FixtureRequest, folder: Path) -> Machine:
    """The locks of one machine, in files alone or in a database that it shares."""
    if request.param == "files":
        return Machine(folder=folder)
    return Machine(folder=folder, url=request.getfixturevalue("cluster"), name=uuid4().hex)


@pytest.fixture
def locks(machine: Machine) -> Iterator[FileLocks]:
    with machine.locks() as opened:
        yield opened


@pytest.fixture
def other(machine: Machine, tmp_path: Path) -> str:
    """Another machine with the same database; the same one where there is no database."""
    return machine.at(tmp_path / "elsewhere").address if machine.url else machine.address


def try_operation(locks: FileLocks) -> AbstractContextManager[None]:
    return locks.operation(OPERATION, wait_seconds=0.0)


def try_worktree(locks: FileLocks) -> AbstractContextManager[None]:
    return locks.worktree(FEATURE, wait_seconds=0.0)


@contextmanager
def in_thread(held: Callable[[], AbstractContextManager[None]]) -> Iterator[threading.Event]:
    """Ask for a lock in a thread; the event tells that it was got, and it is let go at the end."""
    got, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with held():
            got.set()
            enough.wait(300)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield got
    finally:
        enough.set()
        thread.join()


@pytest.mark.parametrize("name", ["operation", "worktree", "files", "base_branch", "gate_slot"])
def test_a_lock_whose_holder_was_killed_is_free_at_once(
    locks: FileLocks, machine: Machine, other: str, name: str
) -> None:
    with running(HOLD, other if name in ("operation", "base_branch") else machine.address, name) as child:
        asked: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "operation": lambda: locks.operation(OPERATION, wait_seconds=300.0),
            "worktree": lambda: locks.worktree(FEATURE, wait_seconds=300.0),
            "files": locks.files,
            "base_branch": locks.base_branch,
            "gate_slot": lambda: locks.gate_slot(1),
        }
        with in_thread(asked[name]) as got:
            assert not got.wait(0.05)
            child.send_signal(signal.SIGKILL)
            child.wait()
            assert got.wait(300)


@pytest.mark.hostile("S21")
def test_a_program_that_the_dead_holder_started_does_not_keep_its_lock(locks: FileLocks, other: str) -> None:
    code = HOLD.replace(
        "    ready()",
        '    pid = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)\n'
        "    print(pid, flush=True)\n"
        "    sys.stdin.readline()",
    ).replace("with held:", 'print("ready", flush=True)\nwith held:')
    with running(code, other, "operation") as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        with pytest.raises(OperationInProgress), try_operation(locks):
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        try:
            with locks.operation(OPERATION, wait_seconds=30.0):
                os.kill(grandchild, 0)
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_an_operation_is_held_by_one_only(locks: FileLocks) -> None:
    with in_thread(lambda: try_operation(locks)) as got:
        assert got.wait(300)
        with pytest.raises(OperationInProgress) as refused, try_operation(locks):
            pass
        with locks.operation(OperationId("op-2"), wait_seconds=0.0):
            pass
    assert refused.value.as_error() == {
        "code": "operation_in_progress",
        "message": "The operation `op-1` is still running.",
        "details": {
            "retryable": True,
            "requires_human": False,
            "suggested_next_actions": [OperationInProgress.hint],
            "operation_id": "op-1",
        },
    }
    with try_operation(locks):
        pass


def test_a_worktree_is_held_by_one_only(locks: FileLocks) -> None:
    with in_thread(lambda: try_worktree(locks)) as got:
        assert got.wait(300)
        with pytest.raises(WorktreeBusy) as refused, try_worktree(locks):
            pass
        with locks.worktree(FeatureId("two"), wait_seconds=0.0):
            pass
    assert refused.value.facts == {"feature_id": "one"}


def test_an_exception_lets_the_lock_go(locks: FileLocks) -> None:
    with pytest.raises(KeyboardInterrupt), try_operation(locks):
        raise KeyboardInterrupt
    with try_operation(locks):
        pass


@pytest.mark.hostile("S35")
def test_operations_leave_nothing_behind_whether_they_end_or_are_killed(
    locks: FileLocks, machine: Machine, folder: Path
) -> None:
    for number in range(9):
        with locks.operation(OperationId(f"op-{number}"), wait_seconds=0.0):
            pass
    with running(HOLD, machine.address, "operation") as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert [(path.name, path.stat().st_size) for path in folder.iterdir()] == [("operations.lock", 0)]


TAKE_TURNS = """
from tests.adapters.files.lock_places import open_locks
locks, total = open_locks(sys.argv[1]), Path(sys.argv[2])
ready()
for turn in range(40):
    with locks.operation("op-1", wait_seconds=300.0):
        total.write_text(str(int(total.read_text()) + 1))
print(turn)
"""


def test_three_processes_that_take_turns_on_one_operation_never_meet(
    machine: Machine, other: str, tmp_path: Path
) -> None:
    total = tmp_path / "total"
    total.write_text("0")
    race(TAKE_TURNS, [(machine.address, total), (machine.address, total), (other, total)])
    assert total.read_text() == "120"


def test_there_are_as_many_gate_slots_as_the_limit_says(locks: FileLocks) -> None:
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(locks.gate_slot(2))
        with in_thread(lambda: locks.gate_slot(2)) as third:
            assert not third.wait(0.05)
            held.close()
            assert third.wait(300)


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "a.lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="Too many levels"), locked_file(tmp_path / "a.lock"):
        pass


@pytest.mark.hostile("S21")
def test_an_operation_runs_as_long_as_its_process_lives(other: str, locks: FileLocks) -> None:
    assert not locks.is_running(OPERATION)
    with running(HOLD, other, "operation") as child:
        assert locks.is_running(OPERATION)
        child.kill()
        child.wait()
        # A database notices it a moment later than the machine itself.
        until(lambda: not locks.is_running(OPERATION))
    with locks.operation(OPERATION, wait_seconds=0.0):
        assert locks.is_running(OPERATION)


@needs_postgres
def test_a_change_under_a_lock_whose_connection_was_lost_is_refused(cluster: str, tmp_path: Path) -> None:
    here = Machine(folder=tmp_path / "here", url=cluster, name=uuid4().hex)
    with here.opened() as (record, locks), here.at(tmp_path / "there").locks() as elsewhere:

        def lose() -> None:
            with locks.operation(OPERATION, wait_seconds=0.0):
                with record.write() as tx:
                    tx.append(event("held"))
                with psycopg.connect(cluster, autocommit=True) as admin:
                    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
                with elsewhere.operation(OPERATION, wait_seconds=30.0), record.write() as tx:
                    tx.append(event("lost"))

        with pytest.raises(Fault, match="The connection that held the locks of this call was lost"):
            lose()
        with record.write() as tx:
            tx.append(event("after"))
        with locks.operation(OPERATION, wait_seconds=0.0), record.write() as tx:
            tx.append(event("held again"))
        with record.read() as view:
            assert [entry.event.kind for entry in view.journal()] == ["held", "after", "held again"]
