"""Group P through the real door: areas, plans and the policy, whatever an agent writes into a plan or a patch."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from aop.core.roles import Role
from tests.hostile.arena import PERMISSIVE, Arena
from tests.hostile.test_diff_text import HUNK, create, edit, move
from tests.hostile.test_names_and_paths import PATTERNS
from tests.world import files, plan_for

STRICT = "version: 1\nprotected_areas: [protected.txt]\n"


def submit(arena: Arena, feature: str = "one", **changes: Any) -> str | None:
    """Submit a plan as its planner; return the code of the refusal, which must have changed nothing, or None."""
    before = arena.fingerprint()
    plan = plan_for(feature, **{"allowed_areas": ["**"], **changes})
    answer = arena.call("plan.submit", role=Role.PLANNER, feature_id=feature, plan_json=plan)
    if answer.error is None:
        return None
    assert arena.fingerprint() == before
    return str(answer.error["code"])


def patch_refused(arena: Arena, diff: bytes, role: Role = Role.BUILDER) -> str:
    error = arena.refusal("repo.apply_patch", role=role, feature_id="one", unified_diff=diff.decode())
    return str(error["code"])


# --- areas and files -----------------------------------------------------------------------------


@pytest.mark.hostile("P01")
@pytest.mark.req("AOP-132", "AOP-172")
@pytest.mark.parametrize("matching", ["glob", "repo_prefix"])
def test_a_folder_whose_name_begins_alike_is_outside_of_the_area(arena: Arena, matching: str) -> None:
    arena.decree(STRICT + f"path_rules: {{matching: {matching}}}\n")
    assert submit(arena, allowed_areas=["src/**"]) is None
    assert patch_refused(arena, create(b"src-evil/x")) == "area_not_allowed"


P02 = [
    move(b"rename", b"protected.txt", b"src/p.txt"),
    b"diff --git a/src/a.txt b/src/a.txt\nrename from protected.txt\nrename to src/a.txt\n",
    b"diff --git a/src/a.txt b/src/p.txt\nrename from protected.txt\nrename to src/p.txt\n",
]


@pytest.mark.hostile("P02", "P03")
@pytest.mark.parametrize("diff", P02)
def test_both_names_of_a_rename_count_whatever_the_header_says(arena: Arena, diff: bytes) -> None:
    arena.decree(STRICT)
    assert submit(arena, files=files(create=("src/p.txt",), modify=("src/a.txt",))) is None
    assert patch_refused(arena, diff) in ("protected_path", "invalid_patch")


P05 = [
    (create(b"src/c.txt"), "src/c.txt"),
    (edit(b"src/b.txt"), "src/b.txt"),
    (b"--- a/src/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "src/a.txt"),
    (edit(b"src/a.txt") + create(b"src/d.txt"), "src/d.txt"),
    (move(b"rename", b"src/a.txt", b"src/c.txt"), "src/a.txt"),
]


@pytest.mark.hostile("P05")
@pytest.mark.req("AOP-174")
@pytest.mark.parametrize(("diff", "path"), P05)
def test_what_the_plan_does_not_name_is_not_touched(arena: Arena, diff: bytes, path: str) -> None:
    arena.decree(STRICT)
    assert submit(arena, files=files(modify=("src/a.txt",))) is None
    error = arena.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff.decode())
    assert (error["code"], error["details"]["path"]) == ("unplanned_file", path)


# --- the policy itself ---------------------------------------------------------------------------

NO_POLICY = ["", "# nothing\n", "[]\n", "version: 1\n- x\n", "version: 2\n", "version: 1\nversion: 1\n", "a: &a [*a]\n"]


CALLS: dict[str, dict[str, Any]] = {
    "repo.apply_patch": {"unified_diff": edit(b"x").decode()},
    "plan.submit": {"plan_json": plan_for("one")},
    "gates.run": {"mode": "fast"},
    "repo.diff": {},
}


@pytest.mark.hostile("P06")
@pytest.mark.parametrize("policy", NO_POLICY)
def test_under_a_policy_that_cannot_be_read_everything_is_denied(arena: Arena, policy: str) -> None:
    arena.decree(policy)
    answers = [arena.call(tool, feature_id="one", **arguments) for tool, arguments in CALLS.items()]
    assert {(answer.error or {})["code"] for answer in answers} == {"invalid_configuration"}
    assert arena.refusal("feature.init", feature_id="two")["code"] == "invalid_configuration"


OF_AOP = [
    "agentic/orchestrator/policy.yaml",
    "agentic/orchestrator/gates.yaml",
    "agentic/orchestrator/prompts/builder.system.md",
    "agentic/features/index.json",
    "agentic/features/one/plan.json",
    "agentic/features/one/state.md",
    "Agentic/Features/One/State.md",
    ".aop/record.db",
    ".worktrees/one/x",
]


@pytest.mark.series(6)
@pytest.mark.hostile("P07")
@pytest.mark.req("AOP-173")
@pytest.mark.parametrize("role", [Role.BUILDER, Role.QA])
@pytest.mark.parametrize("path", OF_AOP)
def test_no_agent_changes_what_belongs_to_aop_even_where_everything_is_permitted(
    arena: Arena, path: str, role: Role
) -> None:
    arena.decree(
        "version: 1\nprotected_areas: []\npermitted_protected_paths: ['**']\npatch_policy: {enforce_plan: false}\n"
    )
    assert patch_refused(arena, create(path.encode()), role) == "protected_path"


@pytest.mark.hostile("P09")
def test_a_guard_holds_in_every_case_of_letters(arena: Arena) -> None:
    arena.decree(PERMISSIVE.replace("protected.txt", "SRC/A.txt"))
    assert patch_refused(arena, edit(b"src/a.txt")) == "protected_path"


@pytest.mark.hostile("P09")
def test_two_plans_collide_in_every_case_of_letters(arena: Arena) -> None:
    assert submit(arena, files=files(create=("Lib/A",))) is None
    arena.init("two")
    assert submit(arena, "two", files=files(create=("lib/a",))) == "collision_detected"


@pytest.mark.unmeasured
@pytest.mark.hostile("P10")
def test_a_plan_full_of_gaps_is_judged_in_time(arena: Arena) -> None:
    gaps = tuple(f"src/**/{'*' * (number % 2)}a/**/*{number}/**/*x" for number in range(100))
    start = process_time()
    assert submit(arena, files=files(create=gaps)) is None
    arena.init("two")
    assert submit(arena, "two", files=files(create=("src/z/**",))) == "collision_detected"
    assert process_time() - start < 10


@pytest.mark.series(5)
@pytest.mark.parametrize(("row", "pattern"), PATTERNS)
def test_a_pattern_that_would_match_nothing_is_refused_when_it_is_read(arena: Arena, row: str, pattern: str) -> None:
    assert submit(arena, allowed_areas=["src", pattern]) == ("invalid_plan" if pattern else "invalid_arguments")


@pytest.mark.hostile("P11")
@pytest.mark.parametrize("key", ["protected_areas", "exclusive_areas", "steering_files", "permitted_protected_paths"])
def test_a_policy_with_such_a_pattern_is_no_policy(arena: Arena, key: str) -> None:
    arena.decree(f"version: 1\n{key}: ['src/{{a,b}}.py']\n")
    error = arena.refusal("repo.status", feature_id="one")
    assert (error["code"], error["details"]["key"]) == ("invalid_configuration", f"{key}[0]")


STEERING = (
    "pytest.ini tox.ini setup.cfg conftest.py src/deep/conftest.py ConfTest.py package.json web/package.json Makefile"
    " GNUmakefile .github/workflows/ci.yml .gitlab-ci.yml .coveragerc noxfile.py uv.lock poetry.lock package-lock.json"
    " yarn.lock pnpm-lock.yaml Cargo.lock go.sum .pre-commit-config.yaml"
).split()


@pytest.mark.series(6)
@pytest.mark.hostile("P13")
@pytest.mark.parametrize("path", STEERING)
def test_what_steers_the_tests_takes_a_person(arena: Arena, path: str) -> None:
    assert patch_refused(arena, create(path.encode())) == "protected_path"


@pytest.mark.hostile("P13")
def test_a_person_permits_such_a_file_by_name(arena: Arena) -> None:
    arena.decree(PERMISSIVE + "permitted_protected_paths: [tests/conftest.py]\n")
    arena.patch(diff=create(b"tests/conftest.py").decode())
    assert arena.changed() == {"tests/conftest.py": "create"}
    assert patch_refused(arena, create(b"conftest.py")) == "protected_path"


THIN = {
    "an empty file": b"diff --git a/new.py b/new.py\nnew file mode 100644\n",
    "white space": create(b"new.py", hunk=b"@@ -0,0 +1,2 @@\n+\n+    \n"),
    "a comment": edit(b"x").replace(HUNK, b"@@ -1 +1,2 @@\n x\n+# done\n"),
}


@pytest.mark.hostile("P14")
@pytest.mark.parametrize("kind", THIN)
def test_a_change_that_does_nothing_is_taken_and_flagged(arena: Arena, kind: str) -> None:
    answer = arena.patch(diff=THIN[kind].decode())
    assert [warning.partition("` ")[2] for warning in answer["warnings"]] == ["changes only white space or comments."]


@pytest.mark.hostile("P15")
@pytest.mark.req("AOP-154", "AOP-155", "AOP-156")
@pytest.mark.parametrize("role", [Role.BUILDER, Role.QA])
def test_whoever_builds_does_not_widen_the_plan(arena: Arena, role: Role) -> None:
    arena.plan()
    wider = plan_for("one", plan_version=2, revision_of=1, allowed_areas=["**"])
    error = arena.refusal("plan.update", role=role, feature_id="one", expected_plan_version=1, plan_json=wider)
    assert error["code"] == "forbidden_tool_for_role"
    claimed = arena.refusal(
        "plan.update", role=role, actor_type="planner", feature_id="one", expected_plan_version=1, plan_json=wider
    )
    assert claimed["code"] == "forbidden_tool_for_role"
    assert patch_refused(arena, edit(b"agentic/features/one/plan.json"), role) == "protected_path"


# --- overlapping plans ---------------------------------------------------------------------------

OVERLAPPING = [
    ("src/x", "./src/x"),
    ("src/x", "src//x"),
    ("src/x/", "src/x/y"),
    ("src/x", "src/x/y"),
    ("src/*/a.py", "src/b/*.py"),
    ("src/*.py", "src/a*"),
    ("src/**/*.py", "src/docs/**"),
    ("src/**", "src/x"),
    ("src/?/*/c", "src/a/b/?"),
    ("src/**/deep/*.py", "src/a/**/x.*"),
]


@pytest.mark.req("AOP-042", "AOP-204")
@pytest.mark.parametrize(("held", "wanted"), OVERLAPPING)
def test_plans_that_can_mean_one_file_collide_whoever_comes_first(arena: Arena, held: str, wanted: str) -> None:
    arena.init("two")
    assert submit(arena, files=files(create=(held,))) is None
    assert submit(arena, "two", files=files(create=(wanted,))) == "collision_detected"


@pytest.mark.req("AOP-083")
def test_a_revision_collides_as_a_first_plan_does(arena: Arena) -> None:
    arena.init("two")
    assert (submit(arena, files=files(create=("src/n/*.py",))), submit(arena, "two")) == (None, None)
    wider = plan_for("two", plan_version=2, revision_of=1, files=files(create=("src/?/x.py",)))
    error = arena.refusal("plan.update", feature_id="two", expected_plan_version=1, plan_json=wider)
    assert error["code"] == "collision_detected"


def test_braces_are_no_way_around_a_collision(arena: Arena) -> None:
    assert submit(arena, files=files(create=("src/{a,b}.py",))) == "invalid_plan"
