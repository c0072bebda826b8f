"""Group S: what the disk does to the state, and what somebody else does to it. Leases are elsewhere."""

from __future__ import annotations

import ast
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import aop
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.ids import OperationId
from aop.kernel.record.port import Operation as Entry
from aop.kernel.record.port import Snapshot
from tests.clocks import clocked
from tests.kernel.tools.worlds import configured, gates_of, step
from tests.soak.faults import (
    MERGE,
    PATCHED,
    PATCHED_BY_GIT,
    REBASED_BY_GIT,
    How,
    Operation,
    Point,
    Stage,
    needs_strace,
    points_of,
    staged,
)
from tests.soak.power_cuts import done
from tests.soak.wholeness import before, damage, outcome_at
from tests.world import World


@pytest.fixture(scope="module")
def patching(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, list[Point]]:
    """A repository that a patch can be applied to, and where that writes."""
    folder = tmp_path_factory.mktemp("patching")
    stage = staged(PATCHED, folder / "template")
    return stage, points_of(stage, folder)


DISKS = [
    pytest.param(How.DISK_FULL, ("pwrite64", "write"), "failed", marks=pytest.mark.hostile("S06"), id="S06 writing"),
    pytest.param(How.DISK_FULL, ("openat", "mkdir"), "failed", marks=pytest.mark.hostile("S06"), id="S06 making"),
    pytest.param(How.DISK_FULL, ("fsync", "renameat"), "failed", marks=pytest.mark.hostile("S06"), id="S06 finishing"),
    pytest.param(How.DISK_BROKEN, ("fsync",), "failed", marks=pytest.mark.hostile("S07"), id="S07"),
    pytest.param(How.INTERRUPTED, ("write", "pwrite64"), "answered", marks=pytest.mark.hostile("S09"), id="S09"),
]


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize(("how", "syscalls", "ending"), DISKS)
def test_a_disk_that_fails_fails_the_operation_and_leaves_the_old_state_whole(
    patching: tuple[Stage, list[Point]], how: How, syscalls: tuple[str, ...], ending: str, tmp_path: Path
) -> None:
    stage, points = patching
    for syscall in syscalls:
        own = [point for point in points if point.syscall == syscall and not point.git]
        # The last ones are part of closing the record, which is done again by whoever opens it: they fail nothing.
        point = own[len(own) // 2]
        outcome = outcome_at(point, how, stage, tmp_path)
        assert (outcome.ending, outcome.damage) == (ending, []), point


@pytest.mark.hostile("S38")
def test_an_index_that_was_blown_up_is_set_aside_unread(world: World) -> None:
    world.init("one")
    index = world.root / "agentic/features/index.json"
    os.truncate(index, 200 * 1024 * 1024)
    answer = world.call("feature.init", feature_id="two")
    (place,) = answer.evidence["set_aside"]
    assert ((world.root / place).stat().st_size, index.stat().st_size < 1000) == (200 * 1024 * 1024, True)


# --- the ledger of operations --------------------------------------------------------------------


@pytest.mark.hostile("S19")
def test_an_id_is_known_for_ever_and_what_it_asked_for_is_not_done_again(world: World) -> None:
    clock = clocked(world)
    first = world.call("feature.init", feature_id="one", operation="op-1")
    world.ok("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True, force=True)
    clock.go_on(timedelta(days=365 * 20).total_seconds())
    again = World(world.root)
    try:
        before = again.fingerprint()
        assert again.call("feature.init", feature_id="one", operation="op-1") == first
        assert (again.call("feature.init", feature_id="two", operation="op-1").error or {})["code"] == (
            "idempotency_mismatch"
        )
        assert again.fingerprint() == before
    finally:
        again.close()


FILLER = OperationId("filler-0000001")
FILL = """
INSERT INTO operations (operation_id, tool, payload_hash, actor, answer)
WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000)
SELECT printf('filler-%07d', n), 'feature.init', 'hash', 'person:ada', '{}' FROM numbers
"""


def work_of(record: SqliteRecord, look: Callable[[Snapshot], object]) -> int:
    """Count the steps that the database takes for a look."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    with record.read() as view:
        connection = record._connection()
        connection.set_progress_handler(step, 1)
        look(view)
        connection.set_progress_handler(None, 1)
    return steps


LOOKS: list[Callable[[Snapshot], object]] = [
    lambda view: view.operation(OperationId("op-1")),
    lambda view: view.operation(FILLER),
    lambda view: view.operation(OperationId("never-seen")),
    lambda view: view.pending_operations(),
]


@pytest.mark.slow
@pytest.mark.hostile("S42")
def test_a_ledger_of_a_million_operations_is_no_more_work_than_an_empty_one(world: World) -> None:
    first = world.call("feature.init", feature_id="one", operation="op-1")
    record = world.app.record
    assert isinstance(record, SqliteRecord)
    filler = Entry(operation_id=FILLER, tool="feature.init", payload_hash="hash", actor="person:ada")
    with record.write() as tx:
        tx.enter_operation(filler)
        tx.finish_operation(FILLER, {})
    few = [work_of(record, look) for look in LOOKS]
    record._connection().execute(FILL)
    assert [work_of(record, look) for look in LOOKS] == few
    again = World(world.root)
    try:
        assert again.call("feature.init", feature_id="one", operation="op-1") == first
        assert again.call("feature.init", feature_id="two", operation="op-2").ok
    finally:
        again.close()


# --- processes that died, and what has their numbers now -------------------------------------------


@pytest.mark.hostile("S27")
@pytest.mark.parametrize("parent", ["tmp", "run", "scratch"])
def test_what_a_dead_process_left_is_known_by_its_lock_and_not_by_its_number(world: World, parent: str) -> None:
    folder = world.root / ".aop" / parent
    folder.mkdir(parents=True, exist_ok=True)
    # Left by a process that died, and whose number now is that of this one, which lives.
    left = folder / f"{os.getpid()}-{'0' * 16}"
    # Held by this process, under a number that nobody has.
    held = folder / f"{2**22 + 1}-{'1' * 16}"
    for each in (left, held):
        each.mkdir()
        os.utime(each, (1, 1))
    with locked_folder(held):
        World(world.root).close()
        assert (left.exists(), held.exists()) == (False, True)


@pytest.mark.hostile("S27")
def test_a_lock_file_that_names_a_living_process_holds_nothing(world: World) -> None:
    locks = world.root / ".aop/locks"
    locks.mkdir(parents=True, exist_ok=True)
    for name in ("operations.lock", "worktree-one.lock", "files.lock", "base-branch.lock", "refs"):
        (locks / name).write_text(f"{os.getpid()}\n")
    assert world.call("feature.init", feature_id="one", operation="op-1").ok


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


SOURCES = Path(aop.__file__).parent
FORKS = {
    "adapters/processes/sandbox/launcher.py": {"fork"},  # a separate program that has no file of AOP open
    "adapters/machine/background.py": {"fork"},  # the child becomes the holder; the parent reports it and ends
}
FORKING = {"fork", "forkpty", "preexec_fn", "multiprocessing", "ProcessPoolExecutor"}


def forks_in(source: Path) -> set[str]:
    """Return what in a module makes a process that goes on without another program, and so with all open files."""
    return {
        name
        for node in ast.walk(ast.parse(source.read_text()))
        for name in (getattr(node, "attr", ""), getattr(node, "arg", ""), getattr(node, "module", ""), named(node))
        if name in FORKING
    }


def named(node: ast.AST) -> str:
    return node.name if isinstance(node, ast.alias) else ""


@pytest.mark.hostile("S22")
def test_nothing_forks_that_goes_on_beside_a_holder_with_its_locks() -> None:
    found = {path.relative_to(SOURCES).as_posix(): forks_in(path) for path in SOURCES.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == FORKS


@pytest.mark.hostile("S22")
def test_a_step_has_no_lock_of_aop_open(tmp_path: Path) -> None:
    steps = step("ls -l /proc/self/fd")
    world = configured(tmp_path / "repo", gates=gates_of(fast=steps))
    try:
        world.plan()
        world.patch()
        world.ok("gates.run", feature_id="one", mode="fast")
        log = world.ok("evidence.latest", feature_id="one")
    finally:
        world.close()
    assert "pipe:" in str(log)
    assert ".lock" not in str(log)


# --- a power cut -----------------------------------------------------------------------------------


@needs_strace
@pytest.mark.slow
@pytest.mark.hostile("S05")
@pytest.mark.parametrize(
    "operation", [PATCHED, PATCHED_BY_GIT, MERGE, REBASED_BY_GIT], ids=lambda operation: operation.name
)
def test_a_power_cut_that_takes_any_names_back_that_were_not_flushed_leaves_all_whole(
    operation: Operation, tmp_path: Path
) -> None:
    stage = staged(operation, tmp_path / "template")
    was, performed = before(stage), done(stage, tmp_path)
    assert performed.lost
    assert [path for path in performed.lost if path.startswith("agentic/features/one/logs/")] == []
    for number, names in enumerate(performed.selections(3)):
        left = performed.after_losing(names, tmp_path / f"cut-{number}")
        # An older file of AOP's own is set aside and named, as every file that is not the last one it wrote.
        found = [wrong for wrong in damage(left, was) if not wrong.startswith("left behind, quarantine")]
        assert found == [], names
