"""repo.apply_patch: which changes are taken, what each refusal is called, and what a change does to what was proven."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.features import Status
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import events, force, gates_of, patch_of, plain, state_of, step
from tests.world import PATCH, World, files, git, plan_for

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"

PLANNED = files(
    create=("src/new.txt", "src/made/", "src/name with space.txt", 'src/"quoted".txt', "src/to.txt"),
    modify=("src/a.txt", "tool.sh", "src/long.txt"),
    delete=("src/b.txt", "src/from.txt"),
)

MORE_FILES = {
    "tool.sh": "echo hi\n",
    "src/from.txt": "keep me\nas I am\nand me\n",
    "src/long.txt": "".join(f"line {number}\n" for number in range(1, 41)),
    "src/twice.txt": "same\nsame\n",
    "src/crlf.txt": "one\r\ntwo\r\n",
}


def with_files(make_world: MakeWorld, **how: Any) -> World:
    return make_world(files=MORE_FILES, **how)


def start(world: World, **changes: Any) -> World:
    world.plan(allowed_areas=["src", "tool.sh"], **{"files": PLANNED, **changes})
    return world


@pytest.fixture(scope="module")
def building(make_shared_world: MakeWorld) -> World:
    """A feature with a plan and one patch, for changes that are refused."""
    world = start(
        with_files(make_shared_world, policy={"protected_areas": ["secret"]}),
        files=files(
            create=("src/new-*", "src/z.txt", "src/config.txt", "src/fine.txt"),
            modify=("src/a.txt", "src/long.txt", "src/twice.txt", "src/crlf.txt"),
            delete=("src/from.txt",),
        ),
        forbidden_areas=["src/off"],
    )
    world.patch()
    return world


def apply(world: World, diff: str, **more: Any) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = world.ok(
        "repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff, **more
    )
    return answer


def refused(world: World, diff: str, **more: Any) -> Mapping[str, Any]:
    return world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff, **more)


def text_of(world: World, path: str) -> str:
    return (world.root / ".worktrees/one" / path).read_text()


# --- what is taken -------------------------------------------------------------------------------


@pytest.mark.req("AOP-010", "AOP-044", "AOP-171", "AOP-177")
def test_a_planned_change_is_in_the_worktree_at_once(world: World) -> None:
    world.plan()

    answer = apply(world, PATCH)

    assert plain(answer) == {
        "feature_id": "one",
        "version": 3,
        "tree": state_of(world).tree,
        "status": "M  src/a.txt\n",
        "changed_files": [{"path": "src/a.txt", "kind": "modify"}],
        "warnings": [],
    }
    assert text_of(world, "src/a.txt") == "one\nTWO\nthree\n"
    assert (world.root / "src/a.txt").read_text() == "one\ntwo\nthree\n"
    assert git(world.root / ".worktrees/one", "status", "--porcelain") == answer["status"]
    assert events(world)[-1] == "patch_applied"


@pytest.mark.req("AOP-134", "AOP-174", "AOP-177")
def test_files_are_created_deleted_renamed_and_made_executable(make_world: MakeWorld) -> None:
    world = start(with_files(make_world))

    answer = apply(
        world,
        patch_of("src/new.txt", "fresh")
        + patch_of("src/made/deep/er.txt", "x")
        + patch_of("src/name with space.txt", "y")
        + "--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-alpha\n-beta\n"
        + "diff --git a/src/from.txt b/src/to.txt\nrename from src/from.txt\nrename to src/to.txt\n"
        + "--- a/src/from.txt\n+++ b/src/to.txt\n@@ -1,3 +1,3 @@\n keep me\n-as I am\n+as I was\n and me\n"
        + "diff --git a/tool.sh b/tool.sh\nold mode 100644\nnew mode 100755\n",
    )

    assert [(each["kind"], each["path"]) for each in answer["changed_files"]] == [
        ("delete", "src/b.txt"),
        ("delete", "src/from.txt"),
        ("create", "src/made/deep/er.txt"),
        ("create", "src/name with space.txt"),
        ("create", "src/new.txt"),
        ("create", "src/to.txt"),
        ("modify", "tool.sh"),
    ]
    assert answer["status"] == git(world.root / ".worktrees/one", "status", "--porcelain", "--no-renames")
    assert text_of(world, "src/to.txt") == "keep me\nas I was\nand me\n"
    assert not (world.root / ".worktrees/one/src/b.txt").exists()
    assert (world.root / ".worktrees/one/tool.sh").stat().st_mode & 0o111


@pytest.mark.req("AOP-174")
def test_a_file_that_the_feature_made_stays_one_that_it_creates(world: World) -> None:
    world.plan(files=files(create=("src/new.txt",)))
    apply(world, patch_of("src/new.txt", "first"))
    answer = apply(world, patch_of("src/new.txt", "second", old=("first",)))
    assert (answer["status"], plain(answer["changed_files"])) == (
        "A  src/new.txt\n",
        [{"path": "src/new.txt", "kind": "modify"}],
    )


def test_a_file_that_the_feature_made_may_go_again_and_a_change_may_be_taken_back(world: World) -> None:
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    base = state_of(world).tree
    apply(world, patch_of("src/new.txt", "first") + PATCH)
    back = "--- a/src/new.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-first\n"
    back += "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-TWO\n+two\n three\n"
    answer = apply(world, back)
    assert (answer["tree"], answer["status"]) == (base, "")


@pytest.mark.hostile("D119")
def test_a_hunk_with_a_wrong_line_number_goes_to_the_only_place_that_fits(make_world: MakeWorld) -> None:
    world = start(with_files(make_world))
    wrong = "--- a/src/long.txt\n+++ b/src/long.txt\n@@ -3,3 +3,3 @@\n line 30\n-line 31\n+LINE 31\n line 32\n"
    apply(world, wrong)
    assert text_of(world, "src/long.txt").splitlines()[30] == "LINE 31"


def test_a_diff_with_little_context_is_applied_where_it_says(make_world: MakeWorld) -> None:
    world = start(with_files(make_world))
    first, second = "@@ -20 +20 @@\n-line 20\n+LINE 20\n", "@@ -30 +30,2 @@\n line 30\n+between\n"
    apply(world, f"--- a/src/long.txt\n+++ b/src/long.txt\n{first}{second}")
    lines = text_of(world, "src/long.txt").splitlines()
    assert (lines[19], lines[29:32]) == ("LINE 20", ["line 30", "between", "line 31"])


def test_a_line_without_its_newline_stays_without_it(world: World) -> None:
    world.plan()
    apply(world, PATCH.replace(" three\n", "-three\n+three\n\\ No newline at end of file\n"))
    assert text_of(world, "src/a.txt") == "one\nTWO\nthree"


@pytest.mark.hostile("P14")
@pytest.mark.parametrize(
    ("diff", "thin"),
    [
        (patch_of("src/new.txt", "", "  "), True),
        (patch_of("src/new.txt", "# later", "// later"), True),
        ("diff --git a/src/new.txt b/src/new.txt\nnew file mode 100644\n", True),
        (patch_of("src/new.txt", "# why", "x = 1"), False),
        ("diff --git a/src/a.txt b/src/a.txt\nold mode 100644\nnew mode 100755\n", False),
    ],
)
def test_a_change_of_nothing_but_space_and_comments_is_taken_and_named(world: World, diff: str, thin: bool) -> None:  # noqa: FBT001
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    warnings = ["`src/new.txt` changes only white space or comments."] if thin else []
    assert list(apply(world, diff)["warnings"]) == warnings


@pytest.mark.req("AOP-108", "AOP-171")
def test_a_policy_may_do_without_plans(make_world: MakeWorld) -> None:
    world = make_world(policy={"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}})
    world.init()
    apply(world, PATCH)
    assert state_of(world).status is Status.PLANNING
    assert refused(world, patch_of("agentic/x", "y"))["code"] == "protected_path"


@pytest.mark.req("AOP-173")
def test_a_guarded_file_is_changed_only_where_a_person_permitted_it_by_name(make_world: MakeWorld) -> None:
    policy = {"permitted_protected_paths": ["src/conftest.py"]}
    world = make_world(policy=policy)
    world.plan(files=files(create=("src/conftest.py", "src/deep/*.py")))
    apply(world, patch_of("src/conftest.py", "x = 1"))
    assert refused(world, patch_of("src/deep/conftest.py", "x = 1"))["code"] == "protected_path"


# --- what is refused -----------------------------------------------------------------------------


def mode_of_b() -> str:
    return "diff --git a/src/b.txt b/src/b.txt\nold mode 100644\nnew mode 100755\n"


REFUSED = [
    (
        "README.md is not in the plan's areas",
        patch_of("README.md", "x", old=("A small repository.",)),
        "area_not_allowed",
    ),
    ("a folder beside an allowed one", patch_of("src-evil/x", "x"), "area_not_allowed"),
    ("a forbidden area", patch_of("src/off/x", "x"), "area_not_allowed"),
    ("a forbidden area in other letters", patch_of("src/OFF/x", "x"), "area_not_allowed"),
    ("a file that is not planned", patch_of("src/b.txt", "x", old=("alpha", "beta")), "unplanned_file"),
    ("a mode that is not planned", mode_of_b(), "unplanned_file"),
    (
        "a delete of what may be modified",
        "--- a/src/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-TWO\n-three\n",
        "unplanned_file",
    ),
    (
        "a rename whose old name is not planned",
        "diff --git a/src/b.txt b/src/z.txt\nrename from src/b.txt\nrename to src/z.txt\n",
        "unplanned_file",
    ),
    (
        "a rename whose new name is not allowed",
        "diff --git a/src/from.txt b/out.txt\nrename from src/from.txt\nrename to out.txt\n",
        "area_not_allowed",
    ),
    ("a protected area", patch_of("secret/key", "x"), "protected_path"),
    ("a protected area in another case", patch_of("Secret/key", "x"), "protected_path"),
    ("a file that steers the tests", patch_of("src/conftest.py", "x = 1"), "protected_path"),
    ("the Makefile", patch_of("src/Makefile", "all:"), "protected_path"),
    ("the plan itself", patch_of("agentic/features/one/plan.json", "{}"), "protected_path"),
    ("the policy", patch_of("agentic/orchestrator/policy.yaml", "version: 1"), "protected_path"),
    ("git's attributes", patch_of(".gitattributes", "* filter=x"), "protected_path"),
    ("a name that differs only in case", patch_of("src/A.txt", "x"), "path_out_of_bounds"),
    ("a folder that differs only in case", patch_of("SRC/new.txt", "x"), "path_out_of_bounds"),
    ("a way out", patch_of("../x", "x"), "path_out_of_bounds"),
    ("git's own files", patch_of(".git/hooks/x", "x"), "path_out_of_bounds"),
    ("a secret", patch_of("src/config.txt", f"token = {SECRET}"), "secret_detected"),
    ("prose", "Here is the change that you asked for.\n", "invalid_patch"),
    ("two hunks of one place", patch_of("src/z.txt", "x") + patch_of("src/z.txt", "y"), "invalid_patch"),
    (
        "a symbolic link",
        "diff --git a/src/l b/src/l\nnew file mode 120000\n--- /dev/null\n+++ b/src/l\n@@ -0,0 +1 @@\n+/etc/passwd\n"
        "\\ No newline at end of file\n",
        "invalid_patch",
    ),
    ("a patch that was cut off", PATCH.rstrip("\n"), "invalid_patch"),
    ("text that is not there", patch_of("src/a.txt", "x", old=("nope",)), "patch_does_not_apply"),
    (
        "text that is there twice",
        "--- a/src/twice.txt\n+++ b/src/twice.txt\n@@ -9 +9 @@\n-same\n+x\n",
        "patch_does_not_apply",
    ),
    ("line ends of another kind", patch_of("src/crlf.txt", "x", old=("one", "two")), "patch_does_not_apply"),
    ("a new file where one is", patch_of("src/a.txt", "x"), "patch_does_not_apply"),
    ("a change of a file that is not there", patch_of("src/none.txt", "x", old=("y",)), "patch_does_not_apply"),
    ("a change of nothing", "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-one\n+one\n", "invalid_patch"),
]


@pytest.mark.req("AOP-044", "AOP-130", "AOP-172", "AOP-173", "AOP-174", "AOP-176", "AOP-278")
@pytest.mark.parametrize(("diff", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused_is(building: World, diff: str, code: str) -> None:
    error = refused(building, diff)
    assert (error["code"], error["details"]["retryable"]) == (code, False)


def test_one_bad_file_refuses_the_whole_patch(building: World) -> None:
    assert refused(building, patch_of("src/fine.txt", "x") + patch_of("agentic/x", "y"))["code"] == "protected_path"


def test_a_secret_is_named_by_its_rule_and_never_repeated(building: World) -> None:
    error = refused(building, patch_of("src/config.txt", f"token = {SECRET}"))
    assert error["details"]["path"] == "src/config.txt"
    assert error["details"]["rules"]
    assert SECRET not in str(error)


def test_a_secret_as_the_new_name_of_a_file_is_refused_and_never_repeated(building: World) -> None:
    names = ("src/a.txt", f"src/{SECRET}")
    diff = "diff --git a/{0} b/{1}\nsimilarity index 100%\nrename from {0}\nrename to {1}\n".format(*names)
    error = refused(building, diff)
    assert (error["code"], SECRET in str(error)) == ("secret_detected", False)


def test_a_secret_that_is_taken_out_is_no_reason_to_refuse(make_world: MakeWorld) -> None:
    world = make_world(files={"src/config.txt": f"token = {SECRET}\n"})
    world.plan(files=files(modify=("src/config.txt",)))
    apply(world, patch_of("src/config.txt", "token = env", old=(f"token = {SECRET}",)))


def test_a_refusal_says_what_was_looked_for_and_what_is_nearest(building: World) -> None:
    diff = "--- a/src/long.txt\n+++ b/src/long.txt\n@@ -7,3 +7,3 @@\n line 7\n-line eight\n+x\n line 9\n"
    details = refused(building, diff)["details"]
    assert details["looked_for"] == ["line 7", "line eight", "line 9"]
    assert {"line": 8, "text": "line 8"} in plain(details["nearest"])


def test_exact_placement_refuses_a_wrong_line_number(make_world: MakeWorld) -> None:
    world = start(with_files(make_world, policy={"patch_policy": {"placement": "exact"}}))
    wrong = "--- a/src/long.txt\n+++ b/src/long.txt\n@@ -3,3 +3,3 @@\n line 30\n-line 31\n+LINE 31\n line 32\n"
    assert refused(world, wrong)["code"] == "patch_does_not_apply"


def test_a_patch_larger_than_the_policy_allows_is_not_looked_at(make_world: MakeWorld) -> None:
    world = make_world(policy={"patch_policy": {"max_patch_bytes": 100}})
    world.plan(files=files(create=("src/new.txt",)))
    assert refused(world, patch_of("src/new.txt", "x" * 100))["code"] == "invalid_patch"


@pytest.mark.req("AOP-030")
def test_a_stale_expected_version_is_refused_and_the_current_one_is_not(building: World, world: World) -> None:
    assert refused(building, PATCH, expected_version=1)["code"] == "version_conflict"
    world.plan()
    assert apply(world, PATCH, expected_version=2)["version"] == 3


@pytest.mark.req("AOP-171")
def test_there_must_be_a_plan_first(world: World) -> None:
    world.init()
    assert refused(world, PATCH)["code"] == "plan_required"


@pytest.mark.req("AOP-254")
@pytest.mark.parametrize("status", [Status.BLOCKED, Status.READY_TO_MERGE, Status.MERGED, Status.FAILED])
def test_a_feature_is_patched_only_while_it_is_built_or_tested(world: World, status: Status) -> None:
    world.plan()
    force(world, status=status)
    error = refused(world, PATCH)
    assert (error["code"], error["details"]["status"]) == ("invalid_status_transition", status)


@pytest.mark.req("AOP-175", "AOP-223")
def test_a_lock_that_was_lost_stops_the_next_patch(world: World) -> None:
    world.init()
    world.ok("locks.acquire", feature_id="one", resource="db_migrations")
    plan = plan_for("one", contracts={"openapi": "none", "events": "none", "db": "migration"})
    world.ok("plan.submit", feature_id="one", plan_json=plan)
    world.ok("locks.release", feature_id="one", resource="db_migrations")
    error = refused(world, PATCH)
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", ["db_migrations"])


@pytest.mark.parametrize("role", [Role.PLANNER, Role.ORCHESTRATOR])
def test_who_plans_does_not_patch(building: World, role: Role) -> None:
    error = building.refusal("repo.apply_patch", role=role, feature_id="one", unified_diff=PATCH)
    assert error["code"] == "forbidden_tool_for_role"


# --- what a change does to the rest --------------------------------------------------------------


def test_verdicts_end_with_the_tree_that_they_were_about(make_world: MakeWorld) -> None:
    report = "TN:\nSF:a\nDA:1,1\nBRDA:1,0,0,1\nend_of_record\n"
    steps = step(f"printf '{report}' > cov.lcov".replace("\n", "\\n"))
    world = make_world(
        gates=gates_of(fast=steps, full=steps, merge=steps, parsers={"coverage": {"type": "lcov", "path": "cov.lcov"}})
    )
    world.plan()
    world.ok("gates.run", feature_id="one", mode="fast")
    proven = {
        "plan": "pass",
        "fast": "pass",
        "full": "na",
        "merge": "na",
        "coverage_line": "pass",
        "coverage_branch": "pass",
    }
    assert state_of(world).gates == proven

    apply(world, PATCH)

    assert state_of(world).gates == {name: "pass" if name == "plan" else "na" for name in proven}


@pytest.mark.req("AOP-050", "AOP-145", "AOP-177")
def test_the_qa_index_is_that_of_the_whole_feature_not_of_the_last_patch(make_world: MakeWorld) -> None:
    world = start(with_files(make_world))
    apply(world, patch_of("src/new.txt", "x", "y") + patch_of('src/"quoted".txt', "z"))
    apply(world, "--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-alpha\n-beta\n")
    apply(
        world,
        "--- a/src/long.txt\n+++ b/src/long.txt\n@@ -1,3 +1,2 @@\n line 1\n-line 2\n line 3\n"
        "@@ -20,3 +19,4 @@\n line 20\n-line 21\n+LINE 21\n+more\n line 22\n",
    )

    index = plain(world.ok("feature.get_context", feature_id="one"))["qa_index"]

    assert index["version"] == 3
    for item in index["items"]:
        for hunk in item["hunks"]:
            assert len(hunk.pop("ref")) == 16
    assert [(item["path"], item["hunks"]) for item in index["items"]] == [
        ('src/"quoted".txt', [{"start_line": 1, "end_line": 1, "change_type": "added"}]),
        ("src/b.txt", [{"start_line": 0, "end_line": 0, "change_type": "deleted"}]),
        (
            "src/long.txt",
            [
                {"start_line": 1, "end_line": 1, "change_type": "deleted"},
                {"start_line": 20, "end_line": 21, "change_type": "modified"},
            ],
        ),
        ("src/new.txt", [{"start_line": 1, "end_line": 2, "change_type": "added"}]),
    ]


@pytest.mark.req("AOP-146")
def test_required_tests_are_the_full_steps_of_profile_and_plan(world: World) -> None:
    more = {"modes": {"full": {"steps": [{"name": "extra", "cmd": ["true"]}]}}}
    world.plan(verification_overrides=more)
    apply(world, PATCH)
    index = plain(world.ok("feature.get_context", feature_id="one"))["qa_index"]
    assert [item["required_tests"] for item in index["items"]] == [["full:check", "full:extra"]]


@pytest.mark.hostile("D076", "D107")
def test_what_somebody_put_into_the_worktree_is_not_lost_and_not_followed(world: World) -> None:
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    worktree = world.root / ".worktrees/one"
    outside = world.root.parent / "outside.txt"
    outside.write_text("canary\n")
    (worktree / "src/a.txt").unlink()
    (worktree / "src/a.txt").symlink_to(outside)
    (worktree / "src/new.txt").write_text("notes of a person\n")

    apply(world, PATCH + patch_of("src/new.txt", "x"))

    assert outside.read_text() == "canary\n"
    assert (text_of(world, "src/a.txt"), text_of(world, "src/new.txt")) == ("one\nTWO\nthree\n", "x\n")
    kept = [path.read_text() for path in (world.root / ".aop/quarantine").rglob("new.txt")]
    assert kept == ["notes of a person\n"]


def test_patches_of_several_callers_are_taken_one_after_the_other(world: World) -> None:
    names = [f"src/{number}.txt" for number in range(5)]
    world.plan(files=files(create=tuple(names)))

    def send(name: str) -> None:
        own = World(world.root)
        try:
            own.patch(diff=patch_of(name, "x"))
        finally:
            own.close()

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(send, names))
    assert world.ok("repo.diff", feature_id="one", options={"name_only": True})["text"].split() == names
    assert state_of(world).version == 2 + len(names)
