"""repo.follow_base: a feature on its way follows the base branch, cleanly or with a conflict for a builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.merges.conflict_reports import LONGEST_DIFF
from aop.kernel.record.documents.features import SetAside
from aop.kernel.record.documents.runs import WorkRequest
from tests.kernel.gateway.test_crash_repair import Killed, mortal_kernel
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.repo.test_commit import DEATHS
from tests.kernel.tools.worlds import patch_of, state_of
from tests.world import PATCH, World, files, git, plan_for


def follow(world: World, feature: str = "one") -> Any:
    return world.ok("repo.follow_base", role=Role.SYSTEM, feature_id=feature)


def rev(world: World, name: str) -> str:
    return git(world.root, "rev-parse", name).strip()


def on_main(world: World, path: str, text: str | bytes | None) -> str:
    """Commit a file on the checked-out base branch, as a person would."""
    file = world.root / path
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    git(world.root, "add", "-A", "src", "README.md")
    git(world.root, "commit", "-qm", "Meanwhile")
    return rev(world, "main")


def text_of(world: World, path: str = "src/a.txt") -> str:
    return (world.root / ".worktrees/one" / path).read_text()


@pytest.fixture
def built(make_world: MakeWorld) -> World:
    """A feature `one` with a patch, before its gates."""
    world = make_world()
    world.plan()
    world.patch()
    return world


def test_a_feature_on_its_way_is_moved_onto_the_base_and_must_be_proven_again(built: World) -> None:
    built.ok("gates.run", feature_id="one", mode="fast")
    base = on_main(built, "README.md", "Meanwhile.\n")

    answer = follow(built)

    state = state_of(built)
    assert (answer["outcome"], answer["conflict"], answer["status"], answer["base_commit"]) == (
        "moved",
        None,
        "qa",
        base,
    )
    assert (state.gates["fast"], rev(built, "one"), text_of(built)) == ("na", base, "one\nTWO\nthree\n")
    assert follow(built)["outcome"] == "current"
    assert state_of(built) == state


def test_a_ready_feature_that_still_merges_stays_ready(readied: World) -> None:
    on_main(readied, "README.md", "Meanwhile.\n")
    before = state_of(readied)
    assert (follow(readied)["outcome"], state_of(readied)) == ("current", before)


def test_a_conflict_leaves_the_base_version_and_hands_over_both_sides(built: World) -> None:
    before = state_of(built)
    base = on_main(built, "src/a.txt", "one\nzwei\nthree\n")

    answer = follow(built)

    report, state = answer["conflict"], state_of(built)
    assert (answer["outcome"], answer["status"], answer["base_commit"]) == ("conflict", "building", base)
    assert state.set_aside == SetAside(tree=before.tree, base_commit=before.base_commit, paths=("src/a.txt",))
    assert state.status_reason == "`one` conflicts with the base branch in 1 file. (`src/a.txt`)"
    assert (text_of(built), rev(built, "one")) == ("one\nzwei\nthree\n", base)
    assert rev(built, f"refs/aop/undone/one/{before.tree}") == before.tree
    assert report["conflicts"] == [
        {
            "path": "src/a.txt",
            "kind": "both_changed",
            "hunks": [{"line": 2, "base": "two\n", "ours": "zwei\n", "theirs": "TWO\n"}],
            "left_out_hunks": 0,
        }
    ]
    assert ("-two\n+TWO\n" in report["own_diff"], "-two\n+zwei\n" in report["base_diff"]) == (True, True)
    assert report["merged_features"] == []
    assert follow(built)["conflict"] == report
    assert state_of(built) == state


def test_a_patch_that_resolves_it_is_judged_as_any_other_and_merged(built: World) -> None:
    on_main(built, "src/a.txt", "one\nzwei\nthree\n")
    follow(built)
    built.patch(diff=PATCH.replace("-two", "-zwei").replace("+TWO", "+ZWEI"))
    assert (state_of(built).set_aside, follow(built)["outcome"]) == (None, "current")
    for mode in ("fast", "full"):
        built.ok("gates.run", feature_id="one", mode=mode)
    built.ok("feature.ready_to_merge", feature_id="one", user_approval_token=built.approval())
    assert git(built.root, "show", "main:src/a.txt") == "one\nZWEI\nthree\n"


def test_the_plan_of_the_merged_feature_is_handed_over_with_the_conflict(make_world: MakeWorld) -> None:
    world = make_world()
    world.ready(summary="Say it louder")
    world.init("two")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())
    world.ok("plan.submit", feature_id="two", plan_json=plan_for("two"))
    world.patch("two", PATCH.replace("+TWO", "+zwei"))
    report = follow(world, "two")["conflict"]
    (merged,) = report["merged_features"]
    assert (merged["feature_id"], merged["summary"]) == ("one", "Say it louder")
    assert merged["plan"]["files"]["modify"] == ["src/a.txt"]


def test_a_ready_feature_that_conflicts_is_requested_for_the_next_run(readied: World) -> None:
    on_main(readied, "src/a.txt", "one\nzwei\nthree\n")
    assert follow(readied)["status"] == "building"
    with readied.app.record.read() as view:
        request = view.get(WorkRequest, "one")
    assert request is not None
    assert request.again


def test_when_the_base_goes_back_the_whole_work_comes_back(built: World) -> None:
    whole = state_of(built)
    on_main(built, "src/a.txt", "one\nzwei\nthree\n")
    follow(built)
    base = on_main(built, "src/a.txt", "one\ntwo\nthree\n")
    assert follow(built)["outcome"] == "moved"
    state = state_of(built)
    assert (state.tree, state.base_commit, state.set_aside) == (whole.tree, base, None)


BINARY = b"\x00\x01one\n"
DELETION = "--- a/src/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"


def renamed(world: World) -> None:
    git(world.root, "mv", "src/a.txt", "src/z.txt")
    on_main(world, "src/z.txt", "one\nzwei\nthree\n")


def changed(world: World) -> None:
    on_main(world, "src/a.txt", "one\nzwei\nthree\n")


def deleted(world: World) -> None:
    on_main(world, "src/a.txt", None)


def made_binary(world: World) -> None:
    on_main(world, "src/a.txt", BINARY)


@pytest.mark.parametrize(
    ("diff", "planned", "base_moves", "kind", "left"),
    [
        pytest.param(
            PATCH, files(modify=("src/a.txt",)), deleted, "deleted_by_ours_changed_by_theirs", None, id="deleted there"
        ),
        pytest.param(
            DELETION,
            files(delete=("src/a.txt",)),
            changed,
            "changed_by_ours_deleted_by_theirs",
            b"one\nzwei\nthree\n",
            id="deleted here",
        ),
        pytest.param(PATCH, files(modify=("src/a.txt",)), made_binary, "both_changed", BINARY, id="binary"),
        pytest.param(PATCH, files(modify=("src/a.txt",)), renamed, "both_changed", None, id="renamed there"),
    ],
)
def test_whatever_conflicts_the_feature_then_has_the_version_of_the_base(
    make_world: MakeWorld,
    diff: str,
    planned: dict[str, Any],
    base_moves: Callable[[World], None],
    kind: str,
    left: bytes | None,
) -> None:
    world = make_world()
    world.plan(files=planned)
    world.patch(diff=diff)
    base_moves(world)
    answer = follow(world)
    (file,) = answer["conflict"]["conflicts"]
    assert (answer["outcome"], file["kind"]) == ("conflict", kind)
    path = world.root / ".worktrees/one/src/a.txt"
    assert (path.read_bytes() if path.exists() else None) == left
    assert world.ok("repo.diff", feature_id="one")["changed_files"] == []
    assert world.ok("repo.status", feature_id="one")["strays"] == []


def test_a_change_does_not_follow_a_file_to_a_guarded_path(built: World) -> None:
    before = state_of(built)
    git(built.root, "mv", "src/a.txt", "src/Makefile")
    base = on_main(built, "README.md", "Meanwhile.\n")

    answer = follow(built)

    assert (answer["outcome"], answer["status"], answer["tree"]) == (
        "conflict",
        "building",
        rev(built, f"{base}^{{tree}}"),
    )
    assert answer["conflict"]["message"] == (
        "`one` changes a file that the base branch moved to the guarded path `src/Makefile`."
    )
    assert ("-two\n+TWO\n" in answer["conflict"]["own_diff"], state_of(built).set_aside) == (
        True,
        SetAside(tree=before.tree, base_commit=before.base_commit, paths=()),
    )


def test_gates_that_pass_do_not_advance_a_feature_whose_conflict_nobody_resolved(built: World) -> None:
    on_main(built, "src/a.txt", "one\nzwei\nthree\n")
    follow(built)
    ran = built.ok("gates.run", role=Role.BUILDER, feature_id="one", mode="fast")
    assert (ran["verdict"], ran["status"]) == ("pass", "building")


def test_a_long_diff_of_a_conflict_is_cut_after_its_secrets_are_masked(built: World) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    on_main(built, "src/a.txt", f"{secret}\n" * (LONGEST_DIFF // 20))
    report = follow(built)["conflict"]
    assert report["base_diff"].endswith(f"[cut after {LONGEST_DIFF} characters]\n")
    assert "A1b2" not in report["base_diff"]


def test_files_that_do_not_conflict_are_kept(make_world: MakeWorld) -> None:
    world = make_world()
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    world.patch(diff=PATCH + patch_of("src/new.txt", "new"))
    on_main(world, "src/a.txt", "one\nzwei\nthree\n")
    follow(world)
    assert (text_of(world), text_of(world, "src/new.txt")) == ("one\nzwei\nthree\n", "new\n")


@pytest.mark.req("AOP-259")
@pytest.mark.parametrize("path", ["README.md", "src/a.txt"], ids=["clean", "conflict"])
@DEATHS
def test_killed_it_happened_or_did_not_and_the_next_call_ends_alike(
    built: World, path: str, port: str, method: str, nth: int, *, after: bool, done: bool
) -> None:
    on_main(built, path, "Meanwhile.\n")
    before, head = state_of(built), rev(built, "one")
    kernel = mortal_kernel(built.app.gateway.kernel, port, method, nth=nth, after=after)
    gateway = Gateway(kernel, built.app.gateway.tools)
    gateway.tools_for(built.app.person)
    system = msgspec.structs.replace(built.app.person, role=Role.SYSTEM)
    with pytest.raises(Killed):
        gateway.call(system, "repo.follow_base", {"feature_id": "one"})
    following = World(built.root)
    following.ok("report.dashboard")
    state = state_of(following)
    assert (state.version > before.version, rev(following, "one") != head) == (done, done)
    assert following.ok("repo.status", feature_id="one")["strays"] == []
    followed = follow(following)
    assert (followed["conflict"] is None, rev(following, "one")) == (path == "README.md", rev(following, "main"))
    following.close()


def test_a_person_sees_a_conflict_in_the_dashboard_the_inbox_and_the_review(readied: World) -> None:
    base = on_main(readied, "src/a.txt", "one\nzwei\nthree\n")
    (row,) = readied.ok("report.dashboard")["features"]
    inbox = readied.ok("inbox.list")
    summary = readied.ok("report.feature_summary", feature_id="one")
    assert (row["conflicts"], row["status"]) == (["src/a.txt"], "ready_to_merge")
    assert (inbox["approvals"], [each["paths"] for each in inbox["conflicts"]]) == ([], [["src/a.txt"]])
    assert [(each["code"], len(each["conflicts"])) for each in summary["missing"]] == [
        ("merge_conflict", 1),
        ("user_approval_required", 0),
    ]
    follow(readied)
    (row,) = readied.ok("report.dashboard")["features"]
    assert (row["conflicts"], row["status"], summary["base_head"]) == (["src/a.txt"], "building", base)
    assert "merge_conflict" in [
        each["code"] for each in readied.ok("report.feature_summary", feature_id="one")["missing"]
    ]


def test_a_base_that_moved_elsewhere_is_no_conflict_for_anybody(readied: World) -> None:
    on_main(readied, "README.md", "Meanwhile.\n")
    (row,) = readied.ok("report.dashboard")["features"]
    inbox = readied.ok("inbox.list")
    assert (row["conflicts"], [each["feature_id"] for each in inbox["approvals"]]) == ([], ["one"])
