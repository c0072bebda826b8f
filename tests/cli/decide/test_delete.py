"""`aop delete`, as a real process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.tools.worlds import ready_repository
from tests.world import World, run_aop

pytestmark = pytest.mark.req("AOP-324")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return ready_repository(tmp_path / "repo")


def test_without_a_terminal_it_shows_what_would_go_and_asks_for_yes(repository: Path) -> None:
    ran = run_aop(repository, "delete", "one", "--worktree")
    assert (ran.code, ran.out) == (2, "")
    assert "It has work that the base branch does not have." in ran.err
    assert "Worktree  .worktrees/one\nBranch    kept, at " in ran.err
    assert "Pass `--yes`" in ran.err
    assert (repository / ".worktrees/one").exists()


def test_for_programs_it_shows_what_would_go_and_says_by_its_exit_code_that_nothing_went(repository: Path) -> None:
    ran = run_aop(repository, "delete", "one", "--json")
    assert (ran.code, ran.json["data"]["deleted"], ran.json["data"]["feature_id"]) == (3, False, "one")
    assert (repository / "agentic/features/one/state.md").exists()


def test_it_removes_the_feature_and_keeps_worktree_and_branch(repository: Path) -> None:
    ran = run_aop(repository, "delete", "one", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("Removed one. Its history: aop logs --feature one\n")
    assert (repository / ".worktrees/one/src/a.txt").exists()
    assert run_aop(repository, "status", "--json").json["data"]["features"] == []


def test_unmerged_work_needs_force(repository: Path) -> None:
    words = ("delete", "one", "--yes", "--worktree", "--branch")
    ran = run_aop(repository, *words)
    assert ran.code == 4
    assert "[unmerged_work]" in ran.err
    forced = run_aop(repository, *words, "--force", "--json")
    assert (forced.code, forced.json["data"]["deleted"], forced.json["data"]["branch"]) == (0, True, "one")
    assert not (repository / ".worktrees/one").exists()


def test_a_branch_alone_is_a_mistake_in_the_words(repository: Path) -> None:
    assert run_aop(repository, "delete", "one", "--yes", "--branch").code == 2


def test_a_feature_that_does_not_exist_is_not_deleted(repository: Path) -> None:
    ran = run_aop(repository, "delete", "two", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "unknown_feature")


def test_a_file_that_somebody_edited_is_named(repository: Path) -> None:
    (repository / "agentic/features/one/state.md").write_text("Mine.\n")
    ran = run_aop(repository, "delete", "one", "--yes")
    place = next(line for line in ran.err.splitlines() if line.startswith("A file")).rsplit(" ", 1)[1].removesuffix(".")
    assert (repository / place).read_text() == "Mine.\n"
    world = World(repository)
    assert world.ok("report.dashboard")["features"] == []
    world.close()
