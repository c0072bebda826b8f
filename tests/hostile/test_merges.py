"""Group M, as far as the tests of the merge tools do not hold it: conflicts, strange repositories, strange pasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import CommitId, ObjectId
from aop.core.roles import Role
from aop.kernel.merges.conflicts import LONGEST_SIDE, MOST_HUNKS, hunks_in
from aop.kernel.record.documents.features import Status
from tests.hostile.test_secrets import PLANTED
from tests.kernel.tools.worlds import configured, copied, force, gates_of, patch_of, ready_repository, state_of, step
from tests.world import World, files, git


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def ready(template: Path, tmp_path: Path) -> Iterator[World]:
    """A managed repository with a feature `one` that may be merged."""
    made = World(copied(template, tmp_path / "repo"))
    yield made
    made.close()


def commit(world: World, **texts: str | None) -> None:
    """Commit whole files below `src` on the checked-out base branch, as a person would."""
    for stem, text in texts.items():
        path = world.root / f"src/{stem}.txt"
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    git(world.root, "add", "-A", "src")
    git(world.root, "commit", "-qm", "Meanwhile")


def merge(world: World, feature: str = "one") -> Any:
    return world.call("feature.ready_to_merge", feature_id=feature, user_approval_token=world.approval(feature))


def conflict_of(world: World) -> Any:
    """Merge a feature that conflicts: that is found before an approval is looked at, and none can be given."""
    return world.call("feature.ready_to_merge", feature_id="one").error


# --- conflicts are data --------------------------------------------------------------------------

DELETION = "--- a/src/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"
MODIFY = files(modify=("src/a.txt",))

CONFLICTS: Mapping[str, tuple[str, dict[str, Any], str | None, Mapping[str, Any]]] = {
    "M03-both-changed": (
        patch_of("src/a.txt", "one", "ZWEI", "three", old=("one", "two", "three")),
        MODIFY,
        "one\ndeux\nthree\n",
        {"kind": "both_changed", "hunks": [{"line": 2, "base": "two\n", "ours": "deux\n", "theirs": "ZWEI\n"}]},
    ),
    "M03-windows-line-ends": (
        patch_of("src/a.txt", "one\r", "ZWEI\r", "three\r", old=("one", "two", "three")),
        MODIFY,
        "one\r\ndeux\r\nthree\r\n",
        {
            "kind": "both_changed",
            "hunks": [
                {
                    "line": 1,
                    "base": "one\ntwo\nthree\n",
                    "ours": "one\r\ndeux\r\nthree\r\n",
                    "theirs": "one\r\nZWEI\r\nthree\r\n",
                }
            ],
        },
    ),
    "M03-markers-in-the-text": (
        patch_of("src/a.txt", "one", "=======", ">>>>>>> x", "three", old=("one", "two", "three")),
        MODIFY,
        "one\n<<<<<<< x\nthree\n",
        {
            "kind": "both_changed",
            "hunks": [{"line": 2, "base": "two\n", "ours": "<<<<<<< x\n", "theirs": "=======\n>>>>>>> x\n"}],
        },
    ),
    "M03-deleted-on-the-base": (
        patch_of("src/a.txt", "one", "ZWEI", "three", old=("one", "two", "three")),
        MODIFY,
        None,
        {"kind": "deleted_by_ours_changed_by_theirs", "hunks": []},
    ),
    "M03-deleted-by-the-feature": (
        DELETION,
        files(delete=("src/a.txt",)),
        "one\ndeux\nthree\n",
        {"kind": "changed_by_ours_deleted_by_theirs", "hunks": []},
    ),
}


@pytest.mark.parametrize(("diff", "planned", "ours", "conflict"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_conflict_says_what_both_sides_made_of_the_same_lines(
    tmp_path: Path, diff: str, planned: dict[str, Any], ours: str | None, conflict: Mapping[str, Any]
) -> None:
    world = configured(tmp_path / "repo")
    try:
        world.ready(diff=diff, files=planned)
        commit(world, a=ours)
        before = world.fingerprint()["refs"]
        error = conflict_of(world)
        assert world.fingerprint()["refs"] == before
    finally:
        world.close()
    assert (error["code"], error["details"]["paths"]) == ("merge_conflict", ["src/a.txt"])
    assert error["details"]["conflicts"] == [{"path": "src/a.txt", "left_out_hunks": 0, **conflict}]


@pytest.mark.parametrize("row", ["M03"])
def test_a_file_that_both_sides_add_conflicts_as_a_whole(tmp_path: Path, row: str) -> None:
    world = configured(tmp_path / "repo")
    try:
        world.ready(diff=patch_of("src/new.txt", "mine"), files=files(create=("src/new.txt",)))
        commit(world, new="yours\n")
        details = conflict_of(world)["details"]
    finally:
        world.close()
    assert details["conflicts"] == [
        {
            "path": "src/new.txt",
            "kind": "both_added",
            "hunks": [{"line": 1, "base": "", "ours": "yours\n", "theirs": "mine\n"}],
            "left_out_hunks": 0,
        }
    ]


OURS, THEIRS = CommitId(ObjectId("a" * 40)), CommitId(ObjectId("b" * 40))


def marked(ours: str, base: str, theirs: str) -> str:
    return f"<<<<<<< {OURS}\n{ours}||||||| cccc\n{base}=======\n{theirs}>>>>>>> {THEIRS}\n"


def test_a_side_of_a_conflict_that_is_long_is_cut() -> None:
    (hunk,) = hunks_in(marked("x" * LONGEST_SIDE + "\n", "", ""), ours=OURS, theirs=THEIRS)
    assert hunk.ours == "x" * LONGEST_SIDE + f"\n[cut after {LONGEST_SIDE} characters]\n"


@pytest.mark.parametrize(
    "text",
    ["", "<<<<<<< HEAD\n=======\n>>>>>>> other\n", f"<<<<<<< {OURS}\n" + "|||||||\n=======\n" * 100_000],
    ids=["nothing", "markers-of-others", "a-marker-that-never-ends"],
)
def test_what_only_looks_like_a_conflict_is_none(text: str) -> None:
    assert list(hunks_in(text, ours=OURS, theirs=THEIRS)) == []


def test_of_many_conflicts_in_a_file_the_first_are_told(tmp_path: Path) -> None:
    count = MOST_HUNKS + 5
    lines = [text for number in range(count) for text in (f"same {number}", "between", "beside", "here")]
    old = "".join(f"{line}\n" for line in lines)
    mine = [line.replace("same", "mine") for line in lines]
    world = configured(tmp_path / "repo", files={"src/long.txt": old})
    try:
        diff = patch_of("src/long.txt", *mine, old=tuple(lines))
        world.ready(diff=diff, files=files(modify=("src/long.txt",)))
        commit(world, long=old.replace("same", "yours"))
        (told,) = conflict_of(world)["details"]["conflicts"]
    finally:
        world.close()
    assert (len(told["hunks"]), told["left_out_hunks"]) == (MOST_HUNKS, 5)


# --- strange repositories ------------------------------------------------------------------------


@pytest.mark.parametrize("row", ["M10"])
def test_a_merge_sends_nothing_to_a_remote(ready: World, tmp_path: Path, row: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(ready.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(ready.root, "push", "-q", "origin", "main")
    git(ready.root, "config", "push.default", "matching")
    before = git(tmp_path / "remote.git", "for-each-ref")
    assert merge(ready).ok
    assert git(tmp_path / "remote.git", "for-each-ref") == before
    assert git(ready.root, "for-each-ref", "refs/remotes/origin/main").split()[0] == before.split()[0]


@pytest.mark.parametrize("row", ["M11"])
def test_a_merge_that_would_bring_a_submodule_in_is_refused(ready: World, row: str) -> None:
    smuggle(ready, f"160000 commit {git(ready.root, 'rev-parse', 'main').strip()}\tsrc/module")
    token = ready.approval()
    error = ready.refusal("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    assert (error["code"], error["details"]["paths"]) == ("protected_path", ["src/module"])


def smuggle(world: World, entry: str) -> None:
    """Make a feature hold what no patch of the gateway could bring in, and prove it."""
    worktree = world.root / ".worktrees/one"
    mode, _, oid, path = entry.replace("\t", " ").split(" ")
    git(worktree, "update-index", "--add", "--cacheinfo", f"{mode},{oid},{path}")
    force(world, tree=git(worktree, "write-tree").strip(), status=Status.BUILDING)
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)


@pytest.mark.parametrize("row", ["M11"])
def test_a_submodule_that_the_base_has_already_is_no_obstacle(template: Path, tmp_path: Path, row: str) -> None:
    root = copied(template, tmp_path / "repo")
    oid = git(root, "rev-parse", "main").strip()
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{oid},module")
    git(root, "commit", "-qm", "A submodule")
    world = World(root)
    try:
        assert merge(world).ok
    finally:
        world.close()
    assert git(root, "ls-tree", "main", "module").split()[:3] == ["160000", "commit", oid]


@pytest.mark.parametrize("row", ["M13"])
def test_a_checkout_with_a_detached_head_stays_where_it_is(ready: World, row: str) -> None:
    git(ready.root, "checkout", "-q", "--detach")
    before = git(ready.root, "rev-parse", "HEAD")
    answer = merge(ready)
    assert (answer.ok, answer.data["notice"]) == (True, "")
    assert git(ready.root, "rev-parse", "HEAD") == before
    assert git(ready.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("row", ["M13"])
def test_a_repository_without_a_commit_begins_no_feature(tmp_path: Path, row: str) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "repo")
    world = World(tmp_path / "repo")
    try:
        error = world.call("feature.init", feature_id="one").error
    finally:
        world.close()
    assert (error or {})["code"] == "base_branch_unusable"


@pytest.mark.parametrize("row", ["M13"])
def test_an_orphan_base_branch_shares_no_past_with_the_feature(ready: World, row: str) -> None:
    git(ready.root, "checkout", "-q", "--orphan", "new")
    git(ready.root, "commit", "-qm", "Another past")
    git(ready.root, "checkout", "-q", "-B", "main", "new")
    error = conflict_of(ready)
    assert (error["code"], error["details"]["paths"]) == ("merge_conflict", [])


@pytest.mark.parametrize("row", ["M14"])
def test_the_second_of_two_merges_is_proven_on_what_the_first_made(tmp_path: Path, row: str) -> None:
    quarrel = step("test ! -e src/one.txt || test ! -e src/two.txt")
    world = configured(tmp_path / "repo", gates=gates_of(merge=quarrel))
    try:
        for name in ("one", "two"):
            world.ready(name, patch_of(f"src/{name}.txt", "x"), files=files(create=(f"src/{name}.txt",)))
        assert merge(world, "one").ok
        main = git(world.root, "rev-parse", "main")
        assert merge(world, "two").error["code"] == "gate_failed"
        assert git(world.root, "rev-parse", "main") == main
        assert state_of(world, "two").status is Status.READY_TO_MERGE
    finally:
        world.close()


# --- secrets on their way into the history ---------------------------------------------------------

SECRET = PLANTED["github-token"]


def all_objects(world: World, ref: str) -> str:
    """Return the content of everything that can be reached from a ref, messages too."""
    listed = git(world.root, "rev-list", "--objects", "--no-object-names", ref).split()
    return "".join(git(world.root, "cat-file", "-p", oid) for oid in listed)


@pytest.mark.hostile("K15")
def test_a_secret_that_was_committed_on_the_branch_and_taken_out_again_does_not_reach_the_base(ready: World) -> None:
    worktree = ready.root / ".worktrees/one"
    git(worktree, "commit", "-qam", "What AOP has shown")
    (worktree / "src/key.txt").write_text(f"{SECRET}\n")
    git(worktree, "add", "src/key.txt")
    git(worktree, "commit", "-qm", f"Add {SECRET}")
    git(worktree, "rm", "-q", "src/key.txt")
    git(worktree, "commit", "-qm", "Take it out")
    assert SECRET in all_objects(ready, "one")
    answer = merge(ready)
    assert answer.ok, answer.error
    assert SECRET not in all_objects(ready, "main")
    assert SECRET not in all_objects(ready, "one")


@pytest.mark.hostile("K15")
def test_no_patch_brings_a_secret_for_a_later_one_to_take_out(world: World) -> None:
    world.plan()
    diff = patch_of("src/a.txt", "one", SECRET, "three", old=("one", "two", "three"))
    error = world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)
    assert error["code"] == "secret_detected"


def test_a_commit_message_that_holds_a_secret_is_refused_and_the_approval_is_still_good(ready: World) -> None:
    wish: dict[str, Any] = {"feature_id": "one", "user_approval_token": ready.approval()}
    error = ready.refusal("feature.ready_to_merge", commit_message=f"Use {SECRET}", **wish)
    assert (error["code"], error["details"]["rules"]) == ("secret_detected", ["github-token"])
    assert SECRET not in str(error)
    assert ready.ok("feature.ready_to_merge", commit_message="Use the key", **wish)["merge_commit"]
