"""Crash repair: the next call finishes or undoes a killed one, and files follow."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from aop.adapters.machine.clock import SystemClock
from aop.core.errors import Fault
from aop.core.ids import FeatureId, OperationId, TreeId
from aop.core.roles import Role
from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import parse_json
from aop.core.text.yaml import parse_yaml
from aop.kernel.features.lifecycle import store_feature, with_status
from aop.kernel.gateway.calls import Kernel
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Event, Transaction
from tests.world import PATCH, World, files, git, plan_for

INDEX = "agentic/features/index.json"
STATE = "agentic/features/one/state.md"
PLAN = "agentic/features/one/plan.json"
DEAD = OperationId("op-1")
UNDO = PATCH.replace("-two", "-TWO", 1).replace("+TWO", "+two")


def front_matter_of(world: World, path: str = STATE) -> Any:
    return parse_yaml(split_front_matter((world.root / path).read_bytes())[0]).value


def index_of(world: World) -> Any:
    return parse_json((world.root / INDEX).read_bytes())


def kernel_of(world: World) -> Kernel:
    return world.app.gateway.kernel


@contextmanager
def reopened(world: World) -> Iterator[World]:
    """Open the repository as the next process does."""
    opened = World(world.root)
    try:
        yield opened
    finally:
        opened.close()


def commit_without_showing(world: World, change: Callable[[Transaction, FeatureState], object]) -> None:
    """Do what a call does up to its commit, and no more."""
    with world.app.record.write() as tx:
        state = tx.get(FeatureState, "one")
        assert state is not None
        change(tx, state)
        tx.append(Event(kind="died", at="", actor="person:ada", operation_id=DEAD, feature_id=state.feature_id))


def block(tx: Transaction, state: FeatureState) -> None:
    store_feature(tx, state, with_status(state, Status.BLOCKED, reason="It waits."), now="2026-01-02T03:04:05.678Z")


@pytest.mark.parametrize(("tool", "arguments"), [("report.dashboard", {}), ("feature.init", {"feature_id": "two"})])
def test_the_next_process_writes_the_files_that_the_dead_one_did_not(
    world: World, tool: str, arguments: dict[str, Any]
) -> None:
    world.init("one")
    commit_without_showing(world, block)
    assert (front_matter_of(world)["status"], index_of(world)["blocked"]) == ("planning", [])
    with reopened(world) as after:
        assert after.call(tool, **arguments).evidence == {}
        assert (front_matter_of(after)["version"], front_matter_of(after)["status"]) == (2, "blocked")
        assert (front_matter_of(after)["status_reason"], index_of(after)["blocked"]) == ("It waits.", ["one"])
        with after.app.record.read() as view:
            assert view.unshown() == ()


def test_the_next_process_makes_the_worktree_be_the_tree_that_was_recorded(world: World) -> None:
    world.plan("one")
    before = TreeId(world.ok("repo.status", feature_id="one")["tree"])
    tree = kernel_of(world).git.objects.apply_to_tree(before, PATCH.encode(), paths={"src/a.txt"})

    def change(tx: Transaction, state: FeatureState) -> None:
        store_feature(tx, state, msgspec.structs.replace(state, tree=tree), now=state.last_updated)
        tx.mark_unshown("worktree", state.feature_id)

    commit_without_showing(world, change)
    worktree = world.root / ".worktrees/one/src/a.txt"
    assert worktree.read_text() == "one\ntwo\nthree\n"
    with reopened(world) as after:
        after.ok("report.dashboard")
        assert worktree.read_text() == "one\nTWO\nthree\n"
        assert after.ok("repo.status", feature_id="one")["strays"] == []


def test_a_worktree_that_is_gone_is_made_again(world: World) -> None:
    world.plan("one")
    world.patch("one")
    shutil.rmtree(world.root / ".worktrees/one")
    commit_without_showing(world, lambda tx, state: tx.mark_unshown("worktree", state.feature_id))
    with reopened(world) as after:
        after.ok("report.dashboard")
        assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"


class RestartedClock(SystemClock):
    """The clock of the same machine after it was started anew."""

    def boot_id(self) -> str:
        return "another"


def restarted(world: World) -> Gateway:
    kernel = msgspec.structs.replace(kernel_of(world), clock=RestartedClock())
    return Gateway(kernel, world.app.gateway.tools)


def shown_files(world: World) -> dict[Path, str]:
    return {path: path.read_text() for path in (world.root / "agentic/features").rglob("*") if path.is_file()}


def test_after_a_restart_of_the_machine_every_file_is_compared_with_the_record_once(world: World) -> None:
    world.plan("one")
    world.init("two")
    before = shown_files(world)
    for path in (STATE, PLAN, INDEX):
        (world.root / path).write_text("")
    (world.root / "agentic/features/two/state.md").unlink()
    with reopened(world) as same:
        same.ok("report.dashboard")
        assert (world.root / STATE).read_text() == ""
        answer = restarted(same).call(same.app.person, "report.dashboard", {})
        assert [Path(place).name for place in answer.evidence["set_aside"]] == ["state.md", "plan.json", "index.json"]
        assert shown_files(world) == before
        assert restarted(same).call(same.app.person, "report.dashboard", {}).evidence == {}


def test_a_state_that_was_edited_by_hand_is_set_aside_and_named_and_the_record_wins(world: World) -> None:
    world.init("one")
    edited = (world.root / STATE).read_text().replace("status: planning", "status: merged")
    (world.root / STATE).write_text(edited)
    answer = world.call("plan.submit", feature_id="one", plan_json=plan_for("one"))
    (place,) = answer.evidence["set_aside"]
    assert ((world.root / place).read_text(), Path(place).name) == (edited, "state.md")
    assert place.startswith(".aop/quarantine/")
    assert (answer.data["status"], front_matter_of(world)["status"]) == ("building", "building")


def test_what_the_repair_at_the_start_sets_aside_is_named_by_the_first_answer(world: World) -> None:
    world.init("one")
    commit_without_showing(world, block)
    (world.root / STATE).write_text("mine")
    with reopened(world) as after:
        (place,) = after.call("report.dashboard").evidence["set_aside"]
        assert after.call("report.dashboard").evidence == {}
    assert (world.root / place).read_text() == "mine"
    assert front_matter_of(world)["status"] == "blocked"


def test_the_files_that_AOP_wrote_itself_are_never_set_aside(world: World) -> None:  # noqa: N802
    world.plan("one")
    answers = [
        world.call("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)
        for diff in (PATCH, UNDO, PATCH)
    ]
    assert [(answer.ok, answer.evidence) for answer in answers] == [(True, {})] * 3
    assert not (world.root / ".aop/quarantine").exists()


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def followed_by_nuls(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 512)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere.json"))
    path.symlink_to("elsewhere.json")


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("kept")


def made_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.hostile("S10", "S11", "S13", "S14")
@pytest.mark.parametrize(
    "damage", [cut_to_nothing, cut_in_half, followed_by_nuls, flipped, linked, made_a_folder, made_a_fifo]
)
def test_a_damaged_file_is_set_aside_as_it_is_and_written_again_from_the_record(
    world: World, damage: Callable[[Path], None]
) -> None:
    world.plan("one")
    index, plan = world.root / INDEX, world.root / PLAN
    whole = plan.read_bytes()
    for path in (index, plan):
        damage(path)
    damaged = [os.lstat(path) for path in (index, plan)]
    commit_without_showing(world, block)
    with reopened(world) as after:
        places = after.call("report.dashboard").evidence["set_aside"]
    found = {Path(place).name: os.lstat(world.root / place) for place in places}
    assert all(map(os.path.samestat, (found["index.json"], found["plan.json"]), damaged))
    assert [path.is_symlink() for path in (index, plan)] == [False, False]
    assert (index_of(world)["version"], index_of(world)["blocked"], plan.read_bytes()) == (2, ["one"], whole)


def test_a_file_that_was_deleted_is_written_again(world: World) -> None:
    world.init("one")
    (world.root / STATE).unlink()
    answer = world.call("plan.submit", feature_id="one", plan_json=plan_for("one"))
    assert (answer.ok, answer.evidence) == (True, {})
    assert front_matter_of(world)["status"] == "building"


def test_a_folder_that_is_a_link_stops_its_own_feature_and_no_other(world: World, tmp_path: Path) -> None:
    for feature in ("one", "two"):
        world.init(feature)
    outside = tmp_path / "outside"
    shutil.move(world.root / "agentic/features/one", outside)
    (world.root / "agentic/features/one").symlink_to(outside)
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    plan = plan_for("one", files=files(create=("src/one.txt",)))
    with pytest.raises(Fault, match=r"`agentic/features/one/\S+` cannot be"):
        world.call("plan.submit", feature_id="one", plan_json=plan, operation="op-1")
    assert world.call("plan.submit", feature_id="two", plan_json=plan_for("two")).ok
    with reopened(world) as after:
        assert after.call("report.dashboard").ok
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before
    (world.root / "agentic/features/one").unlink()
    assert world.call("plan.submit", feature_id="one", plan_json=plan, operation="op-1").ok
    assert front_matter_of(world)["status"] == "building"


def test_a_worktree_that_is_in_use_keeps_the_calls_of_other_features_from_nothing(world: World) -> None:
    for feature in ("one", "two"):
        world.init(feature)
    commit_without_showing(world, lambda tx, state: tx.mark_unshown("worktree", state.feature_id))
    waits: list[tuple[str, float]] = []
    locks = WatchedLocks(kernel_of(world).locks, waits)
    kernel = msgspec.structs.replace(kernel_of(world), locks=locks)
    gateway = Gateway(kernel, world.app.gateway.tools)
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with kernel_of(world).locks.worktree(FeatureId("one"), wait_seconds=0.0):
            held.set()
            enough.wait(300)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(300)
    plan: Any = {"feature_id": "two", "plan_json": plan_for("two")}
    assert gateway.call(world.app.person, "plan.submit", plan).ok
    enough.set()
    thread.join()
    assert {wait for feature, wait in waits if feature == "one"} == {0.0}
    with world.app.record.read() as view:
        assert [(what.kind, what.key) for what in view.unshown()] == [("worktree", "one")]
    world.ok("repo.ensure_worktree", feature_id="two")
    with world.app.record.read() as view:
        assert view.unshown() == ()


class WatchedLocks:
    """The real locks, and how long each caller was ready to wait for a worktree."""

    def __init__(self, locks: Any, waits: list[tuple[str, float]]) -> None:
        self._locks = locks
        self._waits = waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locks, name)

    def worktree(self, feature_id: FeatureId, *, wait_seconds: float) -> Any:
        self._waits.append((feature_id, wait_seconds))
        return self._locks.worktree(feature_id, wait_seconds=wait_seconds)


class Killed(BaseException):
    """The end of a process, which nothing that cleans up after exceptions gets to see."""


class Mortal:
    """A port whose n-th call of a method is the last thing that happens: the process dies before or after it."""

    def __init__(self, port: Any, method: str, *, nth: int, after: bool) -> None:
        self._port = port
        self._method = method
        self._left = nth
        self._after = after

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if name != self._method:
            return real
        self._left -= 1
        if self._left != 0:
            return real
        return self._last_context if name == "write" else self._last_call

    def _last_call(self, *words: Any, **named: Any) -> None:
        if self._after:
            getattr(self._port, self._method)(*words, **named)
        raise Killed

    @contextmanager
    def _last_context(self, **named: Any) -> Iterator[Any]:
        if not self._after:
            raise Killed
        with getattr(self._port, self._method)(**named) as opened:
            yield opened
        raise Killed


def mortal_kernel(kernel: Kernel, port: str, method: str, *, nth: int, after: bool) -> Kernel:
    """A kernel with a mortal port, or with a mortal part of git (`git.branches`)."""
    name, _, part = port.partition(".")
    real = getattr(kernel, name)
    mortal = Mortal(getattr(real, part) if part else real, method, nth=nth, after=after)
    if not part:
        return msgspec.structs.replace(kernel, **{name: mortal})
    parts = {each: getattr(real, each) for each in ("objects", "branches", "worktrees", "merges")}
    return msgspec.structs.replace(kernel, **{name: SimpleNamespace(**parts | {part: mortal})})


MERGE_DEATHS = [
    pytest.param("record", "write", 1, True, False, id="entered"),
    pytest.param("record", "write", 2, True, False, id="intended"),
    pytest.param("record", "write", 3, True, False, id="approval spent"),
    pytest.param("git.branches", "move", 1, True, False, id="feature branch moved"),
    pytest.param("git.branches", "move", 2, False, False, id="base branch about to move"),
    pytest.param("git.branches", "move", 2, True, True, id="base branch moved"),
    pytest.param("record", "write", 4, False, True, id="result about to be recorded"),
    pytest.param("record", "write", 4, True, True, id="result recorded"),
]


def die_merging(world: World, token: str, port: str, method: str, *, nth: int, after: bool) -> None:
    kernel = mortal_kernel(kernel_of(world), port, method, nth=nth, after=after)
    gateway = Gateway(kernel, world.app.gateway.tools)
    gateway._settled = True
    with pytest.raises(Killed):
        gateway.call(world.app.person, "feature.ready_to_merge", merge_of(token), operation_id="op-1")


def merge_of(token: str) -> dict[str, Any]:
    return {"feature_id": "one", "user_approval_token": token}


@pytest.mark.req("AOP-259")
@pytest.mark.hostile("S31")
@pytest.mark.parametrize(("port", "method", "nth", "after", "finished"), MERGE_DEATHS)
def test_a_merge_that_was_killed_is_finished_if_the_base_moved_and_undone_if_not(
    world: World, port: str, method: str, nth: int, *, after: bool, finished: bool
) -> None:
    world.ready("one")
    token, base = world.approval("one"), git(world.root, "rev-parse", "main").strip()
    die_merging(world, token, port, method, nth=nth, after=after)
    with reopened(world) as next_one:
        state = next_one.ok("feature.state_get", feature_id="one")["front_matter"]
        with next_one.app.record.read() as view:
            (approval,) = view.all(Approval)
            assert view.pending_operations() == ()
            assert (view.operation(DEAD) is not None) is finished
        head = git(world.root, "rev-parse", "main").strip()
        if finished:
            assert (state["status"], approval.spent_by) == ("merged", "op-1")
            assert state["evidence"]["merge"]["merge_commit"] == head
        else:
            assert (state["status"], approval.spent_by, head) == ("ready_to_merge", None, base)
        answer = next_one.call("feature.ready_to_merge", operation="op-1", **merge_of(token))
        assert answer.ok, answer.error
        assert answer.data["merge_commit"] == git(world.root, "rev-parse", "main").strip()
        assert git(world.root, "rev-parse", "main^1").strip() == base
        assert front_matter_of(next_one)["status"] == "merged"
        with next_one.app.record.read() as view:
            assert [entry.event.operation_id for entry in view.journal(kinds=("feature_merged",))] == ["op-1"]


def test_an_approval_that_a_dead_merge_had_spent_opens_another_merge(world: World) -> None:
    world.ready("one")
    token = world.approval("one")
    die_merging(world, token, "git.branches", "move", nth=2, after=False)
    with reopened(world) as after:
        assert after.call("feature.ready_to_merge", operation="op-2", **merge_of(token)).ok


@pytest.mark.hostile("S34")
@pytest.mark.parametrize("finished", [True, False], ids=["finishing", "undoing"])
def test_a_repair_that_is_killed_at_any_write_is_taken_up_by_the_next(world: World, *, finished: bool) -> None:
    world.ready("one")
    token = world.approval("one")
    die_merging(world, token, "git.branches", "move", nth=2, after=finished)
    deaths = 0
    for nth in range(1, 20):
        for after in (False, True):
            mortal = Mortal(kernel_of(world).record, "write", nth=nth, after=after)
            kernel = msgspec.structs.replace(kernel_of(world), record=mortal)
            try:
                Gateway(kernel, world.app.gateway.tools).call(world.app.person, "report.dashboard", {})
            except Killed:
                deaths += 1
    assert deaths >= 2
    with reopened(world) as last:
        state = last.ok("feature.state_get", feature_id="one")["front_matter"]
        assert state["status"] == ("merged" if finished else "ready_to_merge")
        assert front_matter_of(last) == state
        assert last.call("feature.ready_to_merge", operation="op-1", **merge_of(token)).ok
        with last.app.record.read() as view:
            assert (len(list(view.journal(kinds=("feature_merged",)))), view.unshown()) == (1, ())
