"""Where a branch begins when the base branch has a remote: real repositories beside each other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.gated.agents import TEST_ONE, Agent, active_pr, gated_repository
from tests.world import World, git


def with_remote(folder: Path, **policy: Any) -> tuple[Path, Path]:
    """Make a repository with a remote, and a colleague's clone of that."""
    root = gated_repository(folder / "repo", **policy)
    git(folder, "clone", "-q", "--bare", str(root), "remote.git")
    git(root, "remote", "add", "origin", str(folder / "remote.git"))
    git(folder, "clone", "-q", "remote.git", "colleague")
    return root, folder / "colleague"


def pushed(colleague: Path) -> str:
    (colleague / "src/new.txt").write_text("new\n")
    git(colleague, "add", "-A")
    git(colleague, "commit", "-qm", "Something new")
    git(colleague, "push", "-q", "origin", "HEAD:main")
    return git(colleague, "rev-parse", "HEAD").strip()


def first_step(root: Path) -> list[str]:
    """Plan, have the branch made, and return what is noted then."""
    world = World(root)
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", "Say it"))
    told = agent.call("get_task")
    world.close()
    assert told["status"] == "EXECUTING_TDD"
    return list(told["notes"])


def tip(root: Path, branch: str) -> str:
    return git(root, "rev-parse", branch).strip()


@pytest.mark.req("GATED-67")
def test_a_branch_begins_at_what_the_remote_has_by_now(tmp_path: Path) -> None:
    root, colleague = with_remote(tmp_path)
    new = pushed(colleague)
    (note,) = first_step(root)
    assert "main" in note
    assert (tip(root, "main"), tip(root, "feat/say-one")) == (new, new)
    assert (root / ".worktrees/gated/src/new.txt").read_text() == "new\n"
    assert not (root / "src/new.txt").exists()


def test_a_base_branch_that_is_ahead_of_its_remote_is_taken_as_it_is(tmp_path: Path) -> None:
    root, _colleague = with_remote(tmp_path)
    git(root, "commit", "-q", "--allow-empty", "-m", "Ours")
    assert (first_step(root), tip(root, "feat/say-one")) == ([], tip(root, "main"))


def test_a_remote_that_went_another_way_or_is_gone_is_told_and_hinders_nothing(tmp_path: Path) -> None:
    root, colleague = with_remote(tmp_path)
    git(root, "commit", "-q", "--allow-empty", "-m", "Ours")
    ours = tip(root, "main")
    pushed(colleague)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, symlinks=True)
    (note,) = first_step(root)
    assert note == "`main` and that of the remote `origin` have diverged; the local one is used."
    shutil.rmtree(tmp_path / "remote.git")
    (note,) = first_step(copy)
    assert note.startswith("The remote `origin` could not be reached for `main`: ")
    assert str(tmp_path) not in note
    assert {tip(each, branch) for each in (root, copy) for branch in ("main", "feat/say-one")} == {ours}


def test_nobody_is_asked_where_the_policy_says_so(tmp_path: Path) -> None:
    root, colleague = with_remote(tmp_path, gated={"fetch_base": False, "review_command": ["true"]})
    old = tip(root, "main")
    pushed(colleague)
    assert (first_step(root), tip(root, "feat/say-one")) == ([], old)


@pytest.mark.req("AOP-126")
@pytest.mark.parametrize("base", ["trunk", "release/1.x"])
def test_a_pull_request_goes_into_a_base_branch_of_any_name(tmp_path: Path, base: str) -> None:
    root = gated_repository(tmp_path / "repo", worktree={"base_branch": base})
    git(root, "branch", "-m", base)
    world = World(root)
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", "Say it"))
    agent.task()
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    agent.task()
    agent.finish("Say one")
    agent.task()
    world.ok("feature.ready_to_merge", feature_id="gated", user_approval_token=world.approval("gated"))
    world.close()
    assert git(root, "show", f"{base}:src/said.txt") == "one\n"
    assert git(root, "branch", "--list", "main", "master") == ""
