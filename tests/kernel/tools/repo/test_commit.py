"""repo.commit, repo.rebase_onto_main and repo.merge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.gateway.gateway import Gateway
from tests.kernel.gateway.test_crash_repair import Killed, mortal_kernel
from tests.kernel.tools.worlds import configured, copied, events, patch_of, plain, ready_repository, state_of
from tests.world import PATCH, World, git

ALLOWED = {"commit_policy": {"allow_commit": True, "allow_merge": True}}
DEATHS = pytest.mark.parametrize(
    ("port", "method", "nth", "after", "done"),
    [
        pytest.param("record", "write", 2, True, False, id="intended"),
        pytest.param("git.branches", "move", 1, True, False, id="branch moved"),
        pytest.param("record", "write", 3, False, False, id="about to be recorded"),
        pytest.param("record", "write", 3, True, True, id="recorded"),
    ],
)
"""Where a call that moves a branch may die, and whether it has happened then."""


@pytest.fixture(scope="module")
def open_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo", policy=ALLOWED)


@pytest.fixture
def opened(open_template: Path, tmp_path: Path) -> Iterator[World]:
    """A feature `one` that may be merged, under a policy that allows these tools."""
    made = World(copied(open_template, tmp_path / "repo"))
    yield made
    made.close()


def ask(world: World, tool: str, **arguments: Any) -> Any:
    return plain(world.ok(tool, role=Role.SYSTEM, feature_id="one", **arguments))


def refused(world: World, tool: str, **arguments: Any) -> Any:
    return world.refusal(tool, role=Role.SYSTEM, feature_id="one", **arguments)


def rev(world: World, name: str) -> str:
    return git(world.root, "rev-parse", name).strip()


def on_main(world: World, path: str, text: str) -> str:
    (world.root / path).write_text(text)
    git(world.root, "add", path)
    git(world.root, "commit", "-qm", "Meanwhile")
    return rev(world, "main")


@pytest.mark.req("AOP-189")
@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("repo.commit", "commit_disabled"),
        ("repo.merge", "merge_disabled"),
    ],
)
def test_commits_and_merges_are_off_unless_the_policy_allows_them(readied: World, tool: str, code: str) -> None:
    assert refused(readied, tool)["code"] == code


@pytest.mark.req("AOP-189")
@pytest.mark.parametrize("tool", ["repo.commit", "repo.rebase_onto_main", "repo.merge"])
@pytest.mark.parametrize("role", sorted(set(Role) - {Role.SYSTEM}))
def test_nobody_but_the_system_has_them(opened: World, tool: str, role: Role) -> None:
    for answer in (
        opened.call(tool, role=role, feature_id="one"),
        opened.call_as_worker(tool, role, "one", feature_id="one"),
    ):
        assert answer.error is not None
        assert answer.error["code"] == "forbidden_tool_for_role"


# --- repo.commit ---------------------------------------------------------------------------------


def test_the_tree_of_the_feature_becomes_a_commit_on_its_branch(opened: World) -> None:
    before = state_of(opened)
    answer = ask(opened, "repo.commit", commit_message="Shout\n\nSigned-off-by: Eve <e@x>")
    head = rev(opened, "one")
    assert answer == {
        "feature_id": "one",
        "version": before.version + 1,
        "branch": "one",
        "commit": head,
        "tree": before.tree,
        "created": True,
    }
    assert (rev(opened, "one^{tree}"), rev(opened, "one~1")) == (before.tree, before.base_commit)
    message = git(opened.root, "log", "-1", "--format=%B", "one")
    assert message.startswith("Shout\n")
    assert "Eve" not in message
    assert git(opened.root / ".worktrees/one", "status", "--porcelain") == ""
    assert events(opened)[-1] == "feature_committed"


def test_a_message_that_holds_a_secret_is_refused(opened: World) -> None:
    secret = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    error = refused(opened, "repo.commit", commit_message=f"Use {secret}")
    assert (error["code"], error["details"]["rules"], secret in str(error)) == (
        "secret_detected",
        ["github-token"],
        False,
    )


def test_the_same_tree_is_committed_once_and_another_takes_its_place(opened: World) -> None:
    first = ask(opened, "repo.commit")
    again = ask(opened, "repo.commit")
    assert (again["commit"], again["created"]) == (first["commit"], False)
    opened.ok(
        "feature.state_patch",
        feature_id="one",
        expected_version=again["version"],
        patch={"status": "qa", "status_reason": "More."},
    )
    opened.patch(diff=patch_of("src/a.txt", "again", old=("one", "TWO", "three")))
    second = ask(opened, "repo.commit")
    assert second["commit"] != first["commit"]
    assert rev(opened, "one~1") == rev(opened, "main")


def test_a_committed_feature_is_merged_as_ever(opened: World) -> None:
    ask(opened, "repo.commit")
    answer = opened.ok("feature.ready_to_merge", feature_id="one", user_approval_token=opened.approval())
    assert rev(opened, "main") == answer["merge_commit"]


def test_commits_that_somebody_else_made_are_not_lost(opened: World) -> None:
    (opened.root / ".worktrees/one/src/b.txt").write_text("Mine.\n")
    git(opened.root / ".worktrees/one", "commit", "-qam", "Mine")
    for tool in ("repo.commit", "repo.rebase_onto_main"):
        assert refused(opened, tool)["code"] == "feature_branch_moved"


def test_a_feature_that_changes_nothing_is_not_committed(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy=ALLOWED)
    world.init()
    assert refused(world, "repo.commit")["code"] == "nothing_to_merge"
    world.close()


# --- repo.rebase_onto_main -----------------------------------------------------------------------


def test_a_feature_moves_to_the_present_base_and_must_be_proven_again(opened: World) -> None:
    token = opened.approval()
    base = on_main(opened, "README.md", "Meanwhile.\n")

    answer = ask(opened, "repo.rebase_onto_main")

    state = state_of(opened)
    assert answer == {
        "feature_id": "one",
        "version": state.version,
        "status": "qa",
        "base_commit": base,
        "tree": state.tree,
        "moved": True,
    }
    assert (rev(opened, "one"), state.gates["full"], state.gates["plan"]) == (base, "na", "pass")
    worktree = opened.root / ".worktrees/one"
    assert (worktree / "README.md").read_text() == "Meanwhile.\n"
    assert (worktree / "src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert opened.ok("repo.status", feature_id="one")["strays"] == []
    assert opened.ok("feature.get_context", feature_id="one")["qa_index"]["source_diff_ref"] == f"{base}..{state.tree}"
    changed = opened.ok("repo.diff", feature_id="one")["changed_files"]
    assert [each["path"] for each in changed] == ["src/a.txt"]
    for mode in ("fast", "full"):
        opened.ok("gates.run", feature_id="one", mode=mode)
    error = opened.refusal("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    assert error["code"] == "approval_invalid"
    assert opened.ok("feature.ready_to_merge", feature_id="one", user_approval_token=opened.approval())


def test_a_move_needs_no_permission_to_commit(readied: World) -> None:
    base = on_main(readied, "README.md", "Meanwhile.\n")
    assert (ask(readied, "repo.rebase_onto_main")["moved"], rev(readied, "one")) == (True, base)


def test_a_feature_on_the_present_base_stays_as_it_is(opened: World) -> None:
    before = state_of(opened)
    answer = ask(opened, "repo.rebase_onto_main")
    assert (answer["moved"], answer["status"], state_of(opened)) == (False, "ready_to_merge", before)


def test_a_conflict_is_told_as_data_and_changes_nothing(opened: World) -> None:
    on_main(opened, "src/a.txt", "one\nzwei\nthree\n")
    error = refused(opened, "repo.rebase_onto_main")
    assert (error["code"], error["details"]["paths"]) == ("merge_conflict", ["src/a.txt"])
    (hunk,) = error["details"]["conflicts"][0]["hunks"]
    assert (hunk["ours"], hunk["theirs"]) == ("zwei\n", "TWO\n")


def test_after_a_conflict_a_feature_is_sent_back_repaired_and_merged(opened: World) -> None:
    on_main(opened, "src/a.txt", "one\ntwo\nthree\nfour\n")
    on_main(opened, "src/b.txt", "changed\n")
    version = state_of(opened).version
    opened.ok(
        "feature.state_patch",
        feature_id="one",
        expected_version=version,
        patch={"status": "building", "status_reason": "The base has moved on."},
    )
    assert ask(opened, "repo.rebase_onto_main")["status"] == "building"
    opened.patch(diff=PATCH.replace("-two", "-TWO").replace("+TWO", "+2"))
    for mode in ("fast", "full"):
        opened.ok("gates.run", feature_id="one", mode=mode)
    opened.ok("feature.ready_to_merge", feature_id="one", user_approval_token=opened.approval())
    assert git(opened.root, "show", "main:src/a.txt") == "one\n2\nthree\nfour\n"


@pytest.mark.req("AOP-259")
@pytest.mark.parametrize("tool", ["repo.commit", "repo.rebase_onto_main"])
@DEATHS
def test_killed_it_happened_or_did_not(
    opened: World, tool: str, port: str, method: str, nth: int, *, after: bool, done: bool
) -> None:
    on_main(opened, "README.md", "Meanwhile.\n")
    before, head = state_of(opened), rev(opened, "one")
    kernel = mortal_kernel(opened.app.gateway.kernel, port, method, nth=nth, after=after)
    gateway = Gateway(kernel, opened.app.gateway.tools)
    gateway.tools_for(opened.app.person)
    system = msgspec.structs.replace(opened.app.person, role=Role.SYSTEM)
    with pytest.raises(Killed):
        gateway.call(system, tool, {"feature_id": "one"})
    following = World(opened.root)
    following.ok("report.dashboard")
    state = state_of(following)
    assert (state.version > before.version, rev(following, "one") != head) == (done, done)
    assert following.ok("repo.status", feature_id="one")["strays"] == []
    following.close()


# --- repo.merge ----------------------------------------------------------------------------------


@pytest.mark.req("AOP-189")
def test_a_merge_needs_what_every_merge_needs(opened: World) -> None:
    assert refused(opened, "repo.merge")["code"] == "user_approval_required"
    assert refused(opened, "repo.merge", user_approval_token="yes")["code"] == "approval_invalid"
    answer = ask(opened, "repo.merge", user_approval_token=opened.approval())
    assert (answer["status"], answer["merge_commit"]) == ("merged", rev(opened, "main"))


def test_a_merge_of_what_is_not_proven_is_refused(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy=ALLOWED)
    world.plan()
    world.patch()
    assert refused(world, "repo.merge")["code"] == "invalid_status_transition"
    world.close()
