"""Commits of a build: by the bot, on its branch alone, here and at a remote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aop.core.errors import ForgeInvariantError
from aop.core.ids import CommitId, ObjectId
from aop.core.roles import Role
from aop.kernel.ports.remotes import require_build_branch
from aop.kernel.record.documents.features import FeatureState
from tests.forge.broker.shelves import Agent, shelve
from tests.forge.builds.cycles import BRANCH, begin, commit, cycle_of, refs
from tests.world import World, git, make_repository

BOT = "ForgeGuard Bot <forgeguard-bot@users.noreply.github.com>"


def with_remote(world: World, folder: Path, head: str = "main") -> Path:
    """Give the repository an `origin`: a bare repository whose HEAD is a branch with the commits of `main`."""
    git(folder, "init", "-q", "--bare", "-b", head, "origin.git")
    remote = folder / "origin.git"
    git(world.root, "remote", "add", "origin", str(remote))
    git(world.root, "push", "-q", "origin", f"main:refs/heads/{head}")
    return remote


def head_of(root: Path, ref: str = "HEAD") -> str:
    return git(root, "rev-parse", ref).strip()


@pytest.mark.req("FORGE-196", "FORGE-197", "FORGE-198")
def test_a_commit_has_the_bot_as_author_the_prefix_and_the_trailer_of_its_build(world: World) -> None:
    begin(world)
    git(world.root, "config", "user.name", "Ada")
    git(world.root, "config", "user.email", "ada@example.org")
    made = commit(world, subject="[forge] Add\n the shop", body="Two lines.\nBuild-Cycle: another\nSigned-off-by: X")
    assert made.ok, made.error
    assert git(world.root, "log", "-1", "--format=%an <%ae>%n%B", BRANCH) == (
        f"{BOT}\n[forge] Add the shop\n\nTwo lines.\n\nBuild-Cycle: shop-b1\n\n"
    )
    assert git(world.root, "show", f"{BRANCH}:made.txt") == "made\n"
    assert (world.root / ".worktrees/shop-b1/made.txt").read_text() == "made\n"
    assert cycle_of(world).head == made.data["head"] == head_of(world.root, BRANCH)
    assert git(world.root / ".worktrees/shop-b1", "status", "--porcelain") == ""


@pytest.mark.req("FORGE-191", "FORGE-195", "FORGE-208", "FORGE-210")
@pytest.mark.parametrize("head", ["main", "master", "trunk"])
@pytest.mark.parametrize("base", ["main", "trunk"])
def test_no_branch_but_that_of_the_build_moves_here_or_at_the_remote(
    world: World, tmp_path: Path, head: str, base: str
) -> None:
    git(world.root, "branch", "trunk")
    (world.root / "agentic/orchestrator/policy.yaml").write_text(f"version: 1\nworktree:\n  base_branch: {base}\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "The base")
    git(world.root, "branch", "-f", "trunk")
    remote = with_remote(world, tmp_path, head)
    for setting in ("push.followTags=true", "push.default=matching", "remote.origin.mirror=true"):
        git(world.root, "config", *setting.split("="))
    git(world.root, "config", "--add", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    git(world.root, "tag", "-a", "v1", "-m", "One")
    (world.root / "mine.txt").write_text("mine\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Mine, not pushed")
    here, there = refs(world.root), refs(remote, "refs/")
    facts = begin(world)
    assert (facts["published"], facts["publish_problem"]) == (facts["baseline_sha"], "")
    assert refs(remote, "refs/") == {**there, f"refs/heads/{BRANCH}": facts["baseline_sha"]}
    assert commit(world).ok
    assert refs(remote, "refs/") == {**there, f"refs/heads/{BRANCH}": facts["baseline_sha"]}
    sealed = commit(world, text="sealed\n", push=True)
    assert refs(remote, "refs/") == {**there, f"refs/heads/{BRANCH}": sealed.data["head"]}
    assert refs(world.root) == {**here, f"refs/heads/{BRANCH}": sealed.data["head"]}
    assert git(world.root, "status", "--porcelain") == ""


def test_without_a_remote_nothing_is_pushed_and_nothing_is_missing(world: World) -> None:
    facts = begin(world)
    assert (facts["published"], facts["publish_problem"]) == ("", "")
    assert commit(world, push=True).ok
    assert cycle_of(world).publish_problem == ""


def test_a_remote_that_is_gone_is_named_and_the_build_goes_on_and_is_pushed_later(world: World, tmp_path: Path) -> None:
    remote = with_remote(world, tmp_path)
    aside = shutil.move(remote, tmp_path / "aside.git")
    facts = begin(world)
    assert facts["published"] == ""
    assert "does not appear to be a git repository" in facts["publish_problem"]
    assert str(tmp_path) not in facts["publish_problem"]
    shutil.move(aside, remote)
    made = commit(world, push=True)
    assert made.ok
    assert (cycle_of(world).published, cycle_of(world).publish_problem) == (made.data["head"], "")


def test_an_empty_remote_gets_no_branch_since_it_would_become_the_default(world: World, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    git(world.root, "remote", "add", "origin", str(tmp_path / "empty.git"))
    facts = begin(world)
    assert facts["publish_problem"] == "The remote `origin` has no branch yet; push your default branch first."
    assert refs(tmp_path / "empty.git", "refs/") == {}


def test_commits_that_only_the_remote_has_are_never_overwritten(world: World, tmp_path: Path) -> None:
    remote = with_remote(world, tmp_path)
    begin(world)
    other = git(remote, "commit-tree", "-p", "main", "-m", "Other", "main^{tree}").strip()
    git(remote, "update-ref", f"refs/heads/{BRANCH}", other)
    made = commit(world, push=True)
    assert made.ok
    assert "rejected" in cycle_of(world).publish_problem
    assert refs(remote)[f"refs/heads/{BRANCH}"] == other


@pytest.mark.req("FORGE-208", "FORGE-209", "FORGE-210")
@pytest.mark.parametrize(
    "branch",
    [
        "main",
        "master",
        "trunk",
        "HEAD",
        "refs/heads/main",
        "forge/build-",
        "forge/build-x/../../main",
        "forge/build-a:refs/heads/main",
        "+forge/build-a",
        "forge/build-a\nmain",
        "forge/build-*",
        "forge/other",
        "feature",
        "",
        "forge/build-shop-b9",
    ],
)
def test_a_branch_that_is_not_of_a_build_or_is_a_default_is_refused_by_the_rule_and_by_the_adapter(
    world: World, tmp_path: Path, branch: str
) -> None:
    remote = with_remote(world, tmp_path)
    defaults = {"trunk", "forge/build-shop-b9"}
    before = refs(remote, "refs/")
    with pytest.raises(ForgeInvariantError):
        require_build_branch(branch, defaults)
    remotes = world.app.gateway.kernel.remotes
    assert remotes is not None
    commit_id = CommitId(ObjectId(head_of(world.root)))
    with pytest.raises(ForgeInvariantError):
        remotes.publish(branch, commit_id, never=defaults)
    assert refs(remote, "refs/") == before


def test_the_branch_that_is_the_default_of_the_remote_is_never_pushed_even_if_it_is_named_like_a_build(
    world: World, tmp_path: Path
) -> None:
    remote = with_remote(world, tmp_path, BRANCH)
    before = refs(remote, "refs/")
    facts = begin(world)
    problem = f"`{BRANCH}` is a default branch, and no build writes one."
    assert (facts["published"], facts["publish_problem"]) == ("", problem)
    assert refs(remote, "refs/") == before
    git(world.root, "fetch", "-q", "origin")
    git(world.root, "remote", "set-head", "origin", BRANCH)
    refused = commit(world)
    assert refused.error is not None
    assert (refused.error["code"], refused.error["message"]) == ("forge_invariant", problem)


def test_the_base_of_the_policy_is_never_written_even_if_it_is_named_like_a_build(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    git(root, "branch", BRANCH)
    (root / "agentic/orchestrator/policy.yaml").write_text(f"version: 1\nworktree:\n  base_branch: {BRANCH}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Policy")
    git(root, "branch", "-f", BRANCH)
    before = refs(root)
    world = World(root)
    try:
        shelve(world, "shop")
        assert world.refusal("forge.build_begin", project_id="shop")["code"] == "forge_invariant"
        assert refs(root) == before
    finally:
        world.close()


@pytest.mark.req("FORGE-199")
def test_commits_of_people_are_taken_in_together_with_the_work_of_the_build(world: World) -> None:
    begin(world)
    commit(world)
    worktree = world.root / ".worktrees/shop-b1"
    (worktree / "people.txt").write_text("people\n")
    git(worktree, "add", "people.txt")
    git(worktree, "commit", "-qm", "By hand")
    tip = head_of(world.root, BRANCH)
    refused = commit(world, text="more\n")
    assert refused.error is not None
    assert refused.error["code"] == "build_branch_moved"
    assert world.ok("forge.build_status", build_id="shop-b1")["branch_state"] == "ahead"
    world.ok("gates.run", feature_id="shop-b1", mode="fast")
    taken = world.ok("forge.build_take_commits", build_id="shop-b1")
    assert (taken["head"], taken["commits"]) == (tip, [tip])
    with world.app.record.read() as view:
        state = view.get(FeatureState, "shop-b1")
    assert state is not None
    assert (state.tree, state.gates["fast"]) == (head_of(world.root, f"{BRANCH}^{{tree}}"), "na")
    assert commit(world, text="more\n").ok
    assert git(world.root, "show", f"{BRANCH}:people.txt") == "people\n"
    listed = Agent(world, Role.FORGE_BUILDER, build="shop-b1").ok("forge_list_branch_commits", build_cycle_id="shop-b1")
    assert [(each["made_by"], each["author"], each["subject"]) for each in listed["commits"]] == [
        ("bot", BOT, "[forge] Make it"),
        ("person", "Ada <ada@example.org>", "By hand"),
        ("bot", BOT, "[forge] Make it"),
    ]
    assert [each["build_cycle"] for each in listed["commits"]] == ["shop-b1", "", "shop-b1"]


@pytest.mark.req("FORGE-199")
def test_commits_that_people_only_pushed_are_taken_in_and_a_lost_push_is_made_up_for(
    world: World, tmp_path: Path
) -> None:
    remote = with_remote(world, tmp_path)
    begin(world)
    commit(world)
    main = {**refs(world.root), **refs(remote)}["refs/heads/main"]
    world.ok("forge.build_take_commits", build_id="shop-b1")
    assert head_of(remote, BRANCH) == cycle_of(world).head == cycle_of(world).published
    git(tmp_path, "clone", "-q", "-b", BRANCH, str(remote), "other")
    (tmp_path / "other/people.txt").write_text("people\n")
    git(tmp_path / "other", "add", "people.txt")
    git(tmp_path / "other", "commit", "-qm", "From elsewhere")
    git(tmp_path / "other", "push", "-q")
    tip = head_of(tmp_path / "other")
    taken = world.ok("forge.build_take_commits", build_id="shop-b1")
    assert (taken["commits"], head_of(world.root, BRANCH), cycle_of(world).head) == ([tip], tip, tip)
    assert (world.root / ".worktrees/shop-b1/people.txt").read_text() == "people\n"
    assert refs(world.root) == {"refs/heads/main": main, f"refs/heads/{BRANCH}": tip} == refs(remote)
    shutil.rmtree(remote)
    assert world.ok("forge.build_take_commits", build_id="shop-b1")["commits"] == []


@pytest.mark.req("FORGE-212")
def test_a_commit_that_only_claims_to_be_of_the_bot_is_listed_as_a_persons(world: World) -> None:
    begin(world)
    forged = ("-c", "user.name=ForgeGuard Bot", "commit-tree", "-p", BRANCH, "-m", "[forge] Forged")
    made = git(world.root, *forged, f"{BRANCH}^{{tree}}").strip()
    git(world.root, "update-ref", f"refs/heads/{BRANCH}", made)
    agent = Agent(world, Role.FORGE_BUILDER, build="shop-b1")
    (listed,) = agent.ok("forge_list_branch_commits", build_cycle_id="shop-b1")["commits"]
    assert (listed["sha"], listed["made_by"]) == (made, "person")
    status = agent.ok("forge_get_branch_status", build_cycle_id="shop-b1")
    assert (status["branch"], status["commit_count"], status["forge_commit_count"], status["status"]) == (
        BRANCH,
        1,
        0,
        "active",
    )


def test_a_branch_that_somebody_deleted_or_rewrote_stops_the_build_until_it_is_returned(world: World) -> None:
    begin(world)
    made = commit(world).data["head"]
    for damage in (["-d", f"refs/heads/{BRANCH}"], [f"refs/heads/{BRANCH}", head_of(world.root)]):
        git(world.root, "update-ref", *damage)
        for answer in (commit(world, text="x\n"), world.call("forge.build_take_commits", build_id="shop-b1")):
            assert answer.error is not None
            assert answer.error["code"] == "build_branch_moved"
            assert made in answer.error["details"]["suggested_next_actions"][0]
        assert world.ok("forge.build_status", build_id="shop-b1")["branch_state"] in ("gone", "moved")
        git(world.root, "update-ref", f"refs/heads/{BRANCH}", made)
    assert commit(world, text="x\n").ok


@pytest.mark.req("FORGE-207", "FORGE-211")
def test_an_abandoned_build_keeps_its_branch_and_lets_another_begin(world: World) -> None:
    begin(world)
    made = commit(world).data["head"]
    ended = world.ok("forge_abandon_branch", build_cycle_id="shop-b1", reason="It leads nowhere.")
    assert (ended["status"], ended["reason"]) == ("abandoned", "It leads nowhere.")
    assert refs(world.root)[f"refs/heads/{BRANCH}"] == made
    assert world.refusal("forge.build_abandon", build_id="shop-b1", reason="Again")["code"] == "build_ended"
    refused = commit(world, text="more\n")
    assert refused.error is not None
    assert refused.error["code"] == "build_ended"
    assert world.refusal("forge_create_branch", build_cycle_id="shop-b1")["code"] == "build_ended"
    assert world.ok("forge.build_begin", project_id="shop")["build_id"] == "shop-b2"


@pytest.mark.req("FORGE-211")
def test_an_agent_reads_the_branch_of_its_build_and_changes_none(world: World) -> None:
    begin(world)
    begin(world, "library")
    agent = Agent(world, Role.FORGE_BUILDER, build="shop-b1")
    assert agent.code("forge_get_branch_status", build_cycle_id="library-b1") == "unknown_build"
    assert agent.code("forge_get_branch_status") == "invalid_arguments"
    for tool in ("forge_create_branch", "forge_abandon_branch"):
        assert agent.code(tool, build_cycle_id="shop-b1", reason="No") == "forbidden_tool_for_role"


def test_a_commit_that_names_a_tool_of_forge_or_the_build_is_refused_and_moves_nothing(world: World) -> None:
    begin(world)
    before = refs(world.root)
    for text in ("# Ask forge_get_contract first.\n", "# Made by shop-b1.\n"):
        refused = commit(world, text=text)
        assert refused.error is not None
        assert refused.error["code"] == "contract_quoted"
    assert refs(world.root) == before


def test_a_commit_message_with_a_secret_is_refused(world: World) -> None:
    begin(world)
    refused = commit(world, subject="Use ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    assert refused.error is not None
    assert refused.error["code"] == "secret_detected"
