"""`aop gc`: finds what belongs to no feature, and loses no work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.adapters.git.narrow.base_packs import history_name
from aop.core.ids import FeatureId
from tests.adapters.processes.test_orphans import at_work, dead_process
from tests.world import World, git, make_repository, run_aop


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one living feature and one that was deleted, but for its worktree and its branch."""
    made = make_repository(tmp_path / "repo")
    world = World(made)
    world.init("alive")
    world.plan("gone")
    world.patch("gone")
    (made / ".worktrees/gone/notes.txt").write_text("Nobody committed this.\n")
    world.ok("feature.delete", feature_id="gone", dry_run=False)
    world.close()
    return made


def told(root: Path) -> list[tuple[str, Any]]:
    """Return what the journal says of leftovers."""
    world = World(root)
    with world.app.record.read() as view:
        found = [(entry.event.kind, dict(entry.event.payload)) for entry in view.journal()]
    world.close()
    return [each for each in found if each[0].startswith("leftover_")]


def test_it_says_what_would_go_and_changes_nothing(root: Path) -> None:
    before = git(root, "for-each-ref")
    ran = run_aop(root, "gc")
    assert (ran.code, ran.out) == (3, "worktree  gone  has work that no branch has\nbranch  gone\n")
    assert (git(root, "for-each-ref"), (root / ".worktrees/gone/notes.txt").is_file()) == (before, True)
    assert told(root) == []


def test_applied_it_removes_them_and_keeps_the_work_below_a_ref(root: Path) -> None:
    ran = run_aop(root, "gc", "--apply", "--json")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert [(each["leftover"]["kind"], each["rescued"]) for each in ran.json["data"]["removed"]] == [
        ("worktree", "refs/aop/rescue/gone/1"),
        ("branch", None),
    ]
    assert git(root, "show", "refs/aop/rescue/gone/1:notes.txt") == "Nobody committed this.\n"
    assert git(root, "show", "refs/aop/rescue/gone/1:src/a.txt") == "one\nTWO\nthree\n"
    assert sorted(path.name for path in (root / ".worktrees").iterdir()) == ["alive"]
    assert git(root, "branch", "--format=%(refname:short)").split() == ["alive", "main"]
    assert told(root) == [
        ("leftover_rescued", {"what": "worktree", "name": "gone", "ref": "refs/aop/rescue/gone/1"}),
        ("leftover_removed", {"what": "worktree", "name": "gone", "ref": "refs/aop/rescue/gone/1"}),
        ("leftover_removed", {"what": "branch", "name": "gone", "ref": None}),
    ]
    again = run_aop(root, "gc", "--apply")
    assert (again.code, again.err) == (0, "Nothing to clean up.\n")


def test_a_branch_with_commits_of_its_own_is_kept_below_a_ref(root: Path) -> None:
    git(root / ".worktrees/gone", "add", "-A")
    git(root / ".worktrees/gone", "commit", "-qm", "Mine")
    tip = git(root, "rev-parse", "gone").strip()
    ran = run_aop(root, "gc", "--apply")
    assert ran.out == "worktree  gone  removed\nbranch  gone  removed  work saved as refs/aop/rescue/gone/1\n"
    assert git(root, "rev-parse", "refs/aop/rescue/gone/1").strip() == tip


def test_the_copied_history_of_a_branch_that_is_no_longer_the_base_goes(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    git(root, "branch", "develop")
    world = World(root)
    worktree = world.app.repository.worktrees.ensure(FeatureId("one"), "develop")
    for branch in ("main", "develop"):
        with world.app.repository.narrow.shown(worktree, branch):
            pass
    world.close()
    main, old = history_name("main"), history_name("develop")
    ran = run_aop(root, "gc", "--apply", "--json")
    gone = [each["leftover"]["name"] for each in ran.json["data"]["removed"] if each["leftover"]["kind"] == "history"]
    assert (gone, sorted(path.name for path in (root / ".aop/history").iterdir())) == ([old], [main])
    assert ("leftover_removed", {"what": "history", "name": old, "ref": None}) in told(root)


def test_a_branch_that_somebody_has_checked_out_stays(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "remove", "--force", ".worktrees/gone")
    git(root, "worktree", "add", "-q", str(tmp_path / "mine"), "gone")
    ran = run_aop(root, "gc", "--apply")
    assert (ran.code, ran.out) == (1, "branch  gone  It is checked out in `mine`.\n")


def test_what_works_for_a_dead_supervisor_is_ended(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    with at_work(root, maker=dead_process()) as orphan:
        assert run_aop(root, "gc").out == f"process  {orphan.pid}\n"
        assert run_aop(root, "gc", "--apply").code == 0
        assert orphan.wait(timeout=300) == -9
