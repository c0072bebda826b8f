"""plan.submit, plan.get and plan.update: what a plan must be, what it may name, and whom it collides with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.plans import Plan
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import CHECK, events, force, gates_of, patch_of, plain, state_of, step
from tests.world import World, files, plan_for

NO_CONTRACTS = {"openapi": "none", "events": "none", "db": "none"}


def step_override(**keys: Any) -> dict[str, Any]:
    return {"modes": {"fast": {"steps": [{"name": "lint", "cmd": ["true"], **keys}]}}}


def revision(feature: str = "one", version: int = 2, **changes: Any) -> dict[str, Any]:
    return plan_for(feature, plan_version=version, revision_of=version - 1, **changes)


# --- plan.submit and plan.get --------------------------------------------------------------------


@pytest.mark.req("AOP-166", "AOP-167", "AOP-241", "AOP-248")
def test_an_accepted_plan_lets_building_begin(world: World) -> None:
    world.init()

    answer = world.ok("plan.submit", role=Role.PLANNER, feature_id="one", plan_json=plan_for("one"))

    assert plain(answer) == {
        "feature_id": "one",
        "version": 2,
        "plan_version": 1,
        "status": "building",
        "gates": {"plan": "pass", "fast": "na", "full": "na", "merge": "na"},
    }
    got = plain(world.ok("plan.get", role=Role.BUILDER, feature_id="one"))
    assert got == {"feature_id": "one", "plan_version": 1, "plan": plan_for("one")}
    assert json.loads((world.root / "agentic/features/one/plan.json").read_text()) == plan_for("one")
    assert events(world) == ["feature_initialised", "plan_accepted"]


@pytest.fixture(scope="module")
def planning(make_shared_world: MakeWorld) -> World:
    """A feature that has no plan yet, in a repository with guarded parts."""
    policy = {
        "protected_areas": ["secret", "deploy/*.yaml"],
        "permitted_protected_paths": ["secret/open.txt"],
    }
    slow = [{**CHECK, "timeout_seconds": 30}]
    world = make_shared_world(
        policy=policy, gates=gates_of(fast=slow, others={"strict": {"modes": {"fast": [], "full": []}}})
    )
    world.init()
    return world


def test_plan_get_says_when_there_is_none(planning: World) -> None:
    assert planning.refusal("plan.get", feature_id="one")["code"] == "plan_required"


def missing(field: str) -> dict[str, Any]:
    return {key: value for key, value in plan_for("one").items() if key != field}


MALFORMED = [
    pytest.param(missing("feature_id"), "feature_id", marks=pytest.mark.req("AOP-066")),
    pytest.param(plan_for("-D"), "feature_id", marks=pytest.mark.req("AOP-066")),
    pytest.param(missing("plan_version"), "plan_version", marks=pytest.mark.req("AOP-067")),
    pytest.param(plan_for("one", plan_version=0), "plan_version", marks=pytest.mark.req("AOP-067")),
    pytest.param(plan_for("one", plan_version=True), "plan_version", marks=pytest.mark.req("AOP-067")),
    pytest.param(plan_for("one", plan_version="1"), "plan_version", marks=pytest.mark.req("AOP-067")),
    pytest.param(plan_for("one", plan_version=1.5), "plan_version", marks=pytest.mark.req("AOP-067")),
    pytest.param(missing("summary"), "summary", marks=pytest.mark.req("AOP-068")),
    pytest.param(plan_for("one", summary="four"), "summary", marks=pytest.mark.req("AOP-068")),
    pytest.param(missing("allowed_areas"), "allowed_areas", marks=pytest.mark.req("AOP-069")),
    pytest.param(plan_for("one", allowed_areas=[]), "allowed_areas", marks=pytest.mark.req("AOP-069")),
    pytest.param(plan_for("one", allowed_areas=[""]), "allowed_areas", marks=pytest.mark.req("AOP-069")),
    pytest.param(plan_for("one", allowed_areas="src"), "allowed_areas", marks=pytest.mark.req("AOP-069")),
    pytest.param(missing("forbidden_areas"), "forbidden_areas", marks=pytest.mark.req("AOP-070")),
    pytest.param(plan_for("one", forbidden_areas=None), "forbidden_areas", marks=pytest.mark.req("AOP-070")),
    pytest.param(missing("base_ref"), "base_ref", marks=pytest.mark.req("AOP-071")),
    pytest.param(plan_for("one", base_ref=""), "base_ref", marks=pytest.mark.req("AOP-071")),
    pytest.param(missing("files"), "files", marks=pytest.mark.req("AOP-072")),
    pytest.param(plan_for("one", files={"create": [], "modify": []}), "delete", marks=pytest.mark.req("AOP-072")),
    pytest.param(plan_for("one", files=files(create=("",))), "files.create", marks=pytest.mark.req("AOP-072")),
    pytest.param(plan_for("one", files={**files(), "rename": []}), "rename", marks=pytest.mark.req("AOP-072")),
    pytest.param(missing("contracts"), "contracts", marks=pytest.mark.req("AOP-073")),
    pytest.param(
        plan_for("one", contracts={**NO_CONTRACTS, "db": "modify"}), "contracts.db", marks=pytest.mark.req("AOP-073")
    ),
    pytest.param(
        plan_for("one", contracts={**NO_CONTRACTS, "events": "migration"}), "events", marks=pytest.mark.req("AOP-073")
    ),
    pytest.param(
        plan_for("one", contracts={**NO_CONTRACTS, "openapi": "delete"}), "openapi", marks=pytest.mark.req("AOP-073")
    ),
    pytest.param(
        plan_for("one", contracts={**NO_CONTRACTS, "graphql": "none"}), "graphql", marks=pytest.mark.req("AOP-073")
    ),
    pytest.param(missing("acceptance_criteria"), "acceptance_criteria", marks=pytest.mark.req("AOP-074")),
    pytest.param(plan_for("one", acceptance_criteria=[]), "acceptance_criteria", marks=pytest.mark.req("AOP-074")),
    pytest.param(plan_for("one", acceptance_criteria=[""]), "acceptance_criteria", marks=pytest.mark.req("AOP-074")),
    pytest.param(missing("gate_profile"), "gate_profile", marks=pytest.mark.req("AOP-075")),
    pytest.param(plan_for("one", gate_profile=""), "gate_profile", marks=pytest.mark.req("AOP-075")),
    pytest.param(plan_for("one", gate_targets=[]), "gate_targets", marks=pytest.mark.req("AOP-076")),
    pytest.param(plan_for("one", risk=[1]), "risk", marks=pytest.mark.req("AOP-077")),
    pytest.param(plan_for("one", revision_of=0), "revision_of", marks=pytest.mark.req("AOP-078")),
    pytest.param(plan_for("one", revision_reason=""), "revision_reason", marks=pytest.mark.req("AOP-078")),
    pytest.param(
        plan_for("one", verification_overrides=step_override(timeout_seconds=0)),
        "timeout_seconds",
        marks=pytest.mark.req("AOP-079"),
    ),
    pytest.param(
        plan_for("one", verification_overrides=step_override(shell=True)), "shell", marks=pytest.mark.req("AOP-079")
    ),
    pytest.param(
        plan_for("one", verification_overrides={"modes": {"merge": {"steps": []}}}),
        "merge",
        marks=pytest.mark.req("AOP-079"),
    ),
    pytest.param(plan_for("one", owner="me"), "owner", marks=pytest.mark.req("AOP-080")),
]


@pytest.mark.parametrize(("plan", "named"), MALFORMED)
def test_a_plan_that_breaks_its_schema_is_refused_by_the_name_of_the_key(
    planning: World, plan: dict[str, Any], named: str
) -> None:
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan)
    assert error["code"] == "invalid_arguments"
    assert named in error["message"]


def test_the_same_plans_are_refused_by_the_schema_that_is_published() -> None:
    schema = msgspec.json.schema(Plan)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(plan_for("one"))
    assert [case.values[1] for case in MALFORMED if validator.is_valid(case.values[0])] == []


@pytest.mark.req("AOP-080")
def test_every_object_of_the_published_schema_is_closed() -> None:
    objects = [each for each in nested(msgspec.json.schema(Plan)) if each.get("type") == "object"]
    assert len(objects) > 5
    assert [each["additionalProperties"] for each in objects] == [False] * len(objects)


def nested(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nested(value)
    if isinstance(schema, list):
        for value in schema:
            yield from nested(value)


@pytest.mark.req("AOP-076", "AOP-077", "AOP-078", "AOP-079")
def test_every_optional_key_may_be_there(world: World) -> None:
    world.init()
    full = plan_for(
        "one",
        gate_targets=["src"],
        risk=["none known"],
        revision_reason="It is the first.",
        verification_overrides=step_override(timeout_seconds=5),
    )
    world.ok("plan.submit", feature_id="one", plan_json=full)
    assert plain(world.ok("plan.get", feature_id="one"))["plan"] == full


@pytest.mark.req("AOP-081")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"feature_id": "two"}, "feature_id"),
        ({"plan_version": 2}, "plan_version"),
        ({"revision_of": 1}, "revision_of"),
    ],
)
def test_a_first_plan_is_version_one_of_its_own_feature_and_revises_nothing(
    planning: World, changes: dict[str, Any], field: str
) -> None:
    error = planning.refusal("plan.submit", feature_id="one", plan_json={**plan_for("one"), **changes})
    assert error["code"] == "invalid_plan"
    assert [each["field"] for each in error["details"]["violations"]] == [field]


OUT_OF_PLACE = [
    (files(create=(".git/hooks/x",)), "path_out_of_bounds"),
    (files(create=("../../x",)), "path_out_of_bounds"),
    (files(create=("/etc/passwd",)), "path_out_of_bounds"),
    (files(delete=("src/../../x",)), "path_out_of_bounds"),
    (files(modify=("src\\a.txt",)), "path_out_of_bounds"),
    (files(modify=("C:/x",)), "path_out_of_bounds"),
    (files(create=("src/\u202etxt.exe",)), "path_out_of_bounds"),
    (files(modify=("secret/key.txt",)), "protected_path"),
    (files(modify=("Secret/Key.txt",)), "protected_path"),
    (files(create=("deploy/prod.yaml",)), "protected_path"),
    (files(create=("deploy/",)), "protected_path"),
    (files(create=("**/*.txt",)), "protected_path"),
    (files(modify=("agentic/orchestrator/policy.yaml",)), "protected_path"),
    (files(modify=("agentic/features/one/plan.json",)), "protected_path"),
    (files(create=(".aop/record.db",)), "protected_path"),
    (files(create=(".worktrees/two/x",)), "protected_path"),
    (files(create=("src/conftest.py",)), "protected_path"),
    (files(modify=("Makefile",)), "protected_path"),
    (files(modify=("src/.npmrc",)), "protected_path"),
    (files(create=(".github/workflows/ci.yml",)), "protected_path"),
    (files(create=("src/{a,b}.txt",)), "invalid_plan"),
    (files(create=("src/a**b",)), "invalid_plan"),
    (files(create=("src/c.txt",), modify=("src/C.txt",)), "invalid_plan"),
    (files(modify=("src/a.txt", "./src/a.txt")), "invalid_plan"),
]


@pytest.mark.req("AOP-040", "AOP-130", "AOP-166")
@pytest.mark.parametrize(("named", "code"), OUT_OF_PLACE)
def test_a_plan_may_not_name(planning: World, named: dict[str, Any], code: str) -> None:
    plan = plan_for("one", allowed_areas=["**"], files=named)
    assert planning.refusal("plan.submit", feature_id="one", plan_json=plan)["code"] == code


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"files": files(modify=("README.md",))}, "it lies outside `allowed_areas`"),
        ({"files": files(modify=("src-evil/x",))}, "it lies outside `allowed_areas`"),
        ({"forbidden_areas": ["src/a.txt"]}, "it lies in `forbidden_areas`"),
        ({"forbidden_areas": ["SRC"]}, "it lies in `forbidden_areas`"),
        ({"allowed_areas": ["src", "lib/[ab]"]}, "`[`, `]`, `{`, `}` and `!`"),
        ({"allowed_areas": ["../x"]}, "`..` leads out of a directory"),
        ({"forbidden_areas": ["/abs"]}, "it is absolute"),
    ],
)
def test_areas_and_files_of_a_plan_must_fit_each_other(planning: World, changes: dict[str, Any], reason: str) -> None:
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan_for("one", **changes))
    assert error["code"] == "invalid_plan"
    assert reason in error["details"]["violations"][0]["reason"]


def test_all_that_is_wrong_is_said_at_once(planning: World) -> None:
    plan = plan_for("one", files=files(create=("docs/x", "secret/key.txt"), modify=("src/a.txt",)))
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan)
    assert [(each["field"], each["code"]) for each in error["details"]["violations"]] == [
        ("docs/x", "invalid_plan"),
        ("secret/key.txt", "protected_path"),
        ("secret/key.txt", "invalid_plan"),
    ]


def test_a_person_can_permit_a_protected_path_by_name(make_world: MakeWorld) -> None:
    policy = {"protected_areas": ["secret"], "permitted_protected_paths": ["secret/open.txt", "Makefile"]}
    world = make_world(policy=policy)
    world.plan(allowed_areas=["**"], files=files(create=("secret/open.txt", "Makefile")))
    assert state_of(world).status is Status.BUILDING


@pytest.mark.req("AOP-129")
def test_a_path_is_known_by_its_plain_form(world: World) -> None:
    world.plan(files=files(modify=("./src//a.txt",)))
    world.patch()


@pytest.mark.req("AOP-132")
def test_with_plain_prefixes_an_area_ends_at_a_whole_name(make_world: MakeWorld) -> None:
    world = make_world(policy={"path_rules": {"matching": "repo_prefix"}})
    world.init()
    beside = plan_for("one", files=files(create=("src-evil/x",)))
    assert world.refusal("plan.submit", feature_id="one", plan_json=beside)["code"] == "invalid_plan"
    glob = plan_for("one", allowed_areas=["src/*"])
    assert world.refusal("plan.submit", feature_id="one", plan_json=glob)["code"] == "invalid_plan"
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one", files=files(create=("src/deep/er/x",))))


@pytest.mark.req("AOP-323")
def test_a_profile_that_gates_yaml_does_not_have_is_refused(planning: World) -> None:
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan_for("one", gate_profile="lenient"))
    assert (error["code"], error["details"]["profiles"]) == ("unknown_gate_profile_or_mode", ["default", "strict"])


@pytest.mark.req("AOP-279", "AOP-280")
@pytest.mark.parametrize("override", [{"cmd": ["true"]}, {"cmd": CHECK["cmd"], "timeout_seconds": 31}])
def test_a_plan_may_not_relax_a_step_of_the_profile(planning: World, override: dict[str, Any]) -> None:
    overrides = {"modes": {"fast": {"steps": [{"name": "check", **override}]}}}
    plan = plan_for("one", verification_overrides=overrides)
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan)
    assert (error["code"], error["details"]["step"]) == ("invalid_override_precedence", "check")


@pytest.mark.req("AOP-280")
def test_the_default_time_limit_of_the_policy_cannot_be_exceeded_either(planning: World) -> None:
    steps = [{**CHECK, "timeout_seconds": 601}]
    plan = plan_for("one", verification_overrides={"modes": {"full": {"steps": steps}}})
    assert planning.refusal("plan.submit", feature_id="one", plan_json=plan)["code"] == "invalid_override_precedence"


@pytest.mark.req("AOP-279")
def test_a_plan_may_add_steps_and_shorten_time_limits(world: World) -> None:
    steps = [{**CHECK, "timeout_seconds": 5}, {"name": "more", "cmd": ["sh", "-c", "echo more"]}]
    world.plan(verification_overrides={"modes": {"fast": {"steps": steps}}})
    run = world.ok("gates.run", feature_id="one", mode="fast")
    assert [each["name"] for each in run["steps"]] == ["check", "more"]


@pytest.mark.req("AOP-166", "AOP-222")
@pytest.mark.parametrize(
    ("contracts", "resource"),
    [
        pytest.param({"openapi": "modify"}, "openapi", marks=pytest.mark.req("AOP-215")),
        pytest.param({"events": "modify"}, "events", marks=pytest.mark.req("AOP-216")),
        pytest.param({"db": "migration"}, "db_migrations", marks=pytest.mark.req("AOP-217")),
    ],
)
def test_a_contract_is_not_planned_without_its_lock(planning: World, contracts: dict[str, str], resource: str) -> None:
    plan = plan_for("one", contracts={**NO_CONTRACTS, **contracts})
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan)
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", [resource])


def test_a_stale_expected_version_is_refused(planning: World) -> None:
    error = planning.refusal("plan.submit", feature_id="one", plan_json=plan_for("one"), expected_version=9)
    assert error["code"] == "version_conflict"


def test_a_builder_submits_no_plan(planning: World) -> None:
    error = planning.refusal("plan.submit", role=Role.BUILDER, feature_id="one", plan_json=plan_for("one"))
    assert error["code"] == "forbidden_tool_for_role"


@pytest.mark.req("AOP-254")
@pytest.mark.parametrize("status", [Status.BLOCKED, Status.FAILED])
def test_a_feature_that_is_not_in_planning_gets_no_first_plan(world: World, status: Status) -> None:
    world.init()
    force(world, status=status)
    error = world.refusal("plan.submit", feature_id="one", plan_json=plan_for("one"))
    assert error["code"] == "invalid_status_transition"


# --- plan.update ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned(make_shared_world: MakeWorld) -> World:
    world = make_shared_world()
    world.plan()
    world.patch()
    world.plan("two", files=files(modify=("src/b.txt",)))
    return world


@pytest.mark.req("AOP-081")
def test_a_second_first_plan_is_refused(planned: World) -> None:
    error = planned.refusal("plan.submit", feature_id="one", plan_json=plan_for("one"))
    assert (error["code"], error["details"]["plan_version"]) == ("plan_already_accepted", 1)


@pytest.mark.req("AOP-082")
def test_a_revision_of_a_plan_that_was_revised_meanwhile_is_refused(planned: World) -> None:
    error = planned.refusal("plan.update", feature_id="one", expected_plan_version=2, plan_json=revision(version=3))
    assert error["code"] == "version_conflict"
    assert (error["details"]["expected_version"], error["details"]["current_version"]) == (2, 1)


@pytest.mark.req("AOP-082")
def test_a_revision_must_say_which_plan_it_was_made_for(planned: World) -> None:
    error = planned.refusal("plan.update", feature_id="one", plan_json=revision())
    assert error["code"] == "invalid_arguments"
    assert "expected_plan_version" in error["message"]


@pytest.mark.req("AOP-168")
@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"plan_version": 1, "revision_of": 1}, "plan_version"),
        ({"plan_version": 3, "revision_of": 1}, "plan_version"),
        ({"plan_version": 2}, "revision_of"),
        ({"plan_version": 2, "revision_of": 2}, "revision_of"),
    ],
)
def test_a_revision_is_the_next_version_of_the_plan_that_it_revises(
    planned: World, numbers: dict[str, int], field: str
) -> None:
    plan = plan_for("one", **numbers)
    error = planned.refusal("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    assert (error["code"], error["details"]["violations"][0]["field"]) == ("invalid_plan", field)


@pytest.mark.req("AOP-083", "AOP-168")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"summary": "x"}, "invalid_arguments"),
        ({"files": files(create=("../x",))}, "path_out_of_bounds"),
        ({"files": files(create=("src/conftest.py",))}, "protected_path"),
        ({"files": files(create=("docs/x",))}, "invalid_plan"),
        ({"files": files(modify=("src/a.txt", "src/b.txt"))}, "collision_detected"),
        ({"contracts": {**NO_CONTRACTS, "db": "migration"}}, "lock_not_held"),
        ({"gate_profile": "lenient"}, "unknown_gate_profile_or_mode"),
        (
            {"verification_overrides": {"modes": {"fast": {"steps": [{"name": "check", "cmd": ["true"]}]}}}},
            "invalid_override_precedence",
        ),
    ],
)
def test_a_revision_passes_every_check_of_a_first_plan_again(
    planned: World, changes: dict[str, Any], code: str
) -> None:
    plan = revision(**changes)
    error = planned.refusal("plan.update", feature_id="one", expected_plan_version=1, plan_json=plan)
    assert error["code"] == code
    assert plain(planned.ok("plan.get", feature_id="one"))["plan"] == plan_for("one")


def test_there_must_be_a_plan_to_revise(planning: World) -> None:
    error = planning.refusal("plan.update", feature_id="one", expected_plan_version=1, plan_json=revision())
    assert error["code"] == "plan_required"


@pytest.mark.req("AOP-067", "AOP-168", "AOP-169")
def test_a_revision_keeps_what_was_patched_and_rules_what_comes(world: World) -> None:
    world.plan()
    tree = world.patch()["tree"]
    late = patch_of("src/new.txt", "x")
    early = world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=late)

    answer = world.ok(
        "plan.update",
        role=Role.PLANNER,
        feature_id="one",
        expected_plan_version=1,
        plan_json=revision(files=files(create=("src/new.txt",)), revision_reason="It needs a file."),
    )

    assert (answer["plan_version"], answer["status"]) == (2, "building")
    assert state_of(world).tree == tree
    assert early["code"] == "unplanned_file"
    world.patch(diff=late)
    again = patch_of("src/a.txt", "ONE", old=("one", "TWO", "three"))
    error = world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=again)
    assert error["code"] == "unplanned_file"


def test_a_revision_may_free_what_the_plan_before_it_held(world: World) -> None:
    world.plan()
    world.init("two")
    assert world.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))["code"] == "collision_detected"
    moved = revision(files=files(modify=("src/b.txt",)))
    world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=moved)
    world.ok("plan.submit", feature_id="two", plan_json=plan_for("two"))


@pytest.mark.req("AOP-254")
def test_what_is_ready_to_merge_is_not_planned_anew(readied: World) -> None:
    error = readied.refusal("plan.update", feature_id="one", expected_plan_version=1, plan_json=revision())
    assert error["code"] == "invalid_status_transition"


def test_verdicts_of_other_gates_end_with_the_revision_that_changes_the_gates(make_world: MakeWorld) -> None:
    strict = {"modes": {"fast": step("exit 3"), "full": step("exit 3")}}
    world = make_world(gates=gates_of(others={"strict": strict}))
    world.plan()
    world.ok("gates.run", feature_id="one", mode="fast")

    kept = world.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=revision(summary="Clearer"))
    assert kept["gates"]["fast"] == "pass"
    changed = revision(version=3, gate_profile="strict")
    lost = world.ok("plan.update", feature_id="one", expected_plan_version=2, plan_json=changed)
    assert lost["gates"] == {"plan": "pass", "fast": "na", "full": "na", "merge": "na"}
    assert world.call("gates.run", feature_id="one", mode="fast").error is not None


# --- collisions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def claimed(make_shared_world: MakeWorld) -> World:
    """One feature holds files, a folder and patterns; another is about to plan."""
    world = make_shared_world(policy={"exclusive_areas": ["db", "api/*.json"]})
    world.plan(
        allowed_areas=["**"],
        files=files(
            create=("lib/new/", "docs/*/index.md", "db/001.sql", "api/users.json", "src/nest/a/b.txt"),
            modify=("src/a.txt", "Straße/Ärger.txt"),
        ),
    )
    world.init("two")
    return world


COLLIDING = [
    ("src/a.txt", "file", "src/a.txt"),
    ("./src/a.txt", "file", "src/a.txt"),
    ("src//a.txt", "file", "src/a.txt"),
    ("SRC/A.TXT", "file", "src/a.txt"),
    ("strasse/ärger.txt", "file", "Straße/Ärger.txt"),
    ("src/", "file", "src/a.txt"),
    ("src/*.txt", "file", "src/a.txt"),
    ("src/?.txt", "file", "src/a.txt"),
    ("s*/a.txt", "file", "src/a.txt"),
    ("src/**", "file", "src/a.txt"),
    ("src/a.txt/below", "file", "src/a.txt"),
    ("src/nest/a", "file", "src/nest/a/b.txt"),
    ("lib/new/x.py", "file", "lib/new/"),
    ("lib/new/deep/er.py", "file", "lib/new/"),
    ("lib/new", "file", "lib/new/"),
    ("lib/", "file", "lib/new/"),
    ("lib/*/x.py", "file", "lib/new/"),
    ("docs/a/index.md", "file", "docs/*/index.md"),
    ("docs/b/*.md", "file", "docs/*/index.md"),
    ("db/002.sql", "area", "db"),
    ("DB/002.sql", "area", "db"),
    ("api/orders.json", "area", "api/*.json"),
]


@pytest.mark.req("AOP-025", "AOP-042", "AOP-204", "AOP-208")
@pytest.mark.parametrize(("path", "kind", "held_as"), COLLIDING)
def test_two_plans_collide_on(claimed: World, path: str, kind: str, held_as: str) -> None:
    plan = plan_for("two", allowed_areas=["**"], files=files(create=(path,)))

    error = claimed.refusal("plan.submit", feature_id="two", plan_json=plan)

    assert error["code"] == "collision_detected"
    assert error["details"]["conflicting_feature_ids"] == ["one"]
    assert (kind, held_as) in [(each["kind"], each["held_as"]) for each in error["details"]["collisions"]]


@pytest.mark.req("AOP-205")
def test_an_exclusive_area_is_for_one_plan_at_a_time(claimed: World) -> None:
    plan = plan_for("two", allowed_areas=["**"], files=files(create=("db/other.sql",)))
    error = claimed.refusal("plan.submit", feature_id="two", plan_json=plan)
    assert [(each["kind"], each["identifier"]) for each in error["details"]["collisions"]] == [("area", "db")]


@pytest.mark.parametrize(
    "path", ["src/b.txt", "src/a.txt.bak", "src/a", "libs/new/x", "lib/newer.py", "docs/index.md", "api/users.yaml"]
)
def test_neighbours_do_not_collide(claimed: World, path: str) -> None:
    plan = plan_for("two", allowed_areas=["**"], files=files(create=(path, "src/a.txt")))
    error = claimed.refusal("plan.submit", feature_id="two", plan_json=plan)
    assert [each["identifier"] for each in error["details"]["collisions"]] == ["src/a.txt"]


@pytest.mark.req("AOP-208", "AOP-212")
def test_the_report_names_everything_and_is_the_same_each_time(claimed: World) -> None:
    plan = plan_for("two", allowed_areas=["**"], files=files(create=("db/2.sql",), modify=("SRC/A.txt",)))

    first = claimed.refusal("plan.submit", feature_id="two", plan_json=plan)
    second = claimed.refusal("plan.submit", feature_id="two", plan_json=plan)

    assert plain(first) == plain(second)
    assert plain(first["details"]["collisions"]) == [
        {
            "kind": "area",
            "identifier": "db",
            "feature_id": "one",
            "held_as": "db",
            "recommended_action": "Revise the plan so that it leaves `db` alone, or wait until `one` is merged.",
        },
        {
            "kind": "file",
            "identifier": "src/a.txt",
            "feature_id": "one",
            "held_as": "src/a.txt",
            "recommended_action": "Revise the plan so that it leaves `src/a.txt` alone, or wait until `one` is merged.",
        },
    ]
    assert first["details"]["suggested_next_actions"] == [
        each["recommended_action"] for each in first["details"]["collisions"]
    ]
    assert len(first["details"]["collision_fingerprint"]) == 64
    other = claimed.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))
    assert other["details"]["collision_fingerprint"] != first["details"]["collision_fingerprint"]


@pytest.mark.parametrize(
    ("contracts", "kind", "identifier"),
    [
        pytest.param({"openapi": "modify"}, "contract", "openapi", marks=pytest.mark.req("AOP-206")),
        pytest.param({"events": "modify"}, "contract", "events", marks=pytest.mark.req("AOP-206")),
        pytest.param({"db": "migration"}, "migration", "db", marks=pytest.mark.req("AOP-207")),
    ],
)
def test_a_contract_is_changed_by_one_plan_at_a_time(
    world: World, contracts: dict[str, str], kind: str, identifier: str
) -> None:
    resource = "db_migrations" if identifier == "db" else identifier
    for feature in ("one", "two"):
        world.init(feature)
    changed = {**NO_CONTRACTS, **contracts}
    world.ok("locks.acquire", feature_id="one", resource=resource)
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one", contracts=changed))
    world.ok("locks.release", feature_id="one", resource=resource)
    world.ok("locks.acquire", feature_id="two", resource=resource)

    plan = plan_for("two", contracts=changed, files=files(modify=("src/b.txt",)))
    error = world.refusal("plan.submit", feature_id="two", plan_json=plan)

    assert error["code"] == "collision_detected"
    assert [(each["kind"], each["identifier"]) for each in error["details"]["collisions"]] == [(kind, identifier)]


def test_a_merged_feature_holds_nothing_any_more(readied: World) -> None:
    readied.init("two")
    assert readied.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))["code"] == "collision_detected"
    readied.ok("feature.ready_to_merge", feature_id="one", user_approval_token=readied.approval())
    readied.ok("plan.submit", feature_id="two", plan_json=plan_for("two"))


def test_a_failed_feature_holds_nothing_any_more(world: World) -> None:
    world.plan()
    force(world, status=Status.FAILED)
    world.init("two")
    world.ok("plan.submit", feature_id="two", plan_json=plan_for("two"))


@pytest.mark.req("AOP-042")
def test_of_plans_that_collide_and_come_at_once_exactly_one_is_accepted(world: World) -> None:
    names = [f"f{number}" for number in range(6)]
    for name in names:
        world.init(name)

    def submit(name: str) -> str:
        own = World(world.root)
        try:
            answer = own.call("plan.submit", feature_id=name, plan_json=plan_for(name))
            return "accepted" if answer.error is None else str(answer.error["code"])
        finally:
            own.close()

    with ThreadPoolExecutor(len(names)) as pool:
        outcomes = sorted(pool.map(submit, names))
    assert outcomes == ["accepted"] + ["collision_detected"] * 5
