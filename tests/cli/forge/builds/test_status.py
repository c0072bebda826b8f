"""`aop forge status` and `aop forge abandon`, as a person types them."""

from __future__ import annotations

import pytest

from tests.forge.broker.shelves import pin, shelve
from tests.forge.builds.cycles import BRANCH, begin, commit, refs
from tests.world import World, git, run_aop


@pytest.mark.req("FORGE-212")
def test_the_status_of_a_build_names_its_phase_its_branch_and_who_made_each_commit(world: World) -> None:
    begin(world)
    commit(world)
    made = git(world.root, "commit-tree", "-p", BRANCH, "-m", "By hand", f"{BRANCH}^{{tree}}").strip()
    git(world.root, "update-ref", f"refs/heads/{BRANCH}", made)
    ran = run_aop(world.root, "forge", "status", "shop-b1")
    assert ran.code == 0, ran.err
    baseline = git(world.root, "rev-parse", "--short=8", "main").strip()
    lines = ran.out.splitlines()
    assert lines[0] == "shop-b1, active, solo, batch 1"
    assert lines[1].startswith("Phase     0, Genesis; 0 of ")
    assert lines[2:6] == [
        f"Branch    {BRANCH} (people added commits, which the build takes in before its next step)",
        f"Baseline  {baseline}",
        "Commits   2 commits since then, 1 by AOP",
        "Worktree  .worktrees/shop-b1",
    ]
    makers = [line.split()[1:3] for line in lines[6:] if " bot " in line or " person " in line]
    assert makers == [["bot", "ForgeGuard"], ["person", "Ada"]]
    shown = run_aop(world.root, "forge", "status", "shop-b1", "--json").json
    assert (shown["ok"], shown["data"]["branch_state"], shown["data"]["tip"]) == (True, "ahead", made)


def test_an_abandoned_build_keeps_its_branch_and_says_why(world: World) -> None:
    begin(world)
    before = refs(world.root)
    ran = run_aop(world.root, "forge", "abandon", "shop-b1", "--reason", "The stack is the wrong one.")
    assert (ran.code, ran.out) == (
        0,
        f"Abandoned `shop-b1`. Its branch {BRANCH} stays at {before['refs/heads/main'][:8]}.\n",
    )
    assert refs(world.root) == before
    shown = run_aop(world.root, "forge", "status", "shop-b1").out
    assert "Reason    The stack is the wrong one." in shown.splitlines()
    again = run_aop(world.root, "forge", "abandon", "shop-b1", "--reason", "Again", "--json")
    assert (again.code != 0, again.json["error"]["code"]) == (True, "build_ended")


@pytest.mark.parametrize(("build", "code"), [("nobody-b1", "unknown_build"), ("shop-b1", "build_not_begun")])
def test_a_build_that_is_unknown_or_has_not_begun_has_no_status(world: World, build: str, code: str) -> None:
    pin(world, shelve(world, "shop"))
    ran = run_aop(world.root, "forge", "status", build, "--json")
    assert (ran.code != 0, ran.json["error"]["code"]) == (True, code)
