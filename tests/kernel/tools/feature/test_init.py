"""feature.init, feature.state_get and feature.get_context."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from aop.core.roles import Role
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import events, plain, state_of
from tests.world import World, git, plan_for

# --- feature.init --------------------------------------------------------------------------------


@pytest.mark.req("AOP-019", "AOP-039", "AOP-161", "AOP-170")
def test_a_feature_gets_a_branch_a_worktree_and_a_state_without_any_spec(world: World) -> None:
    head = git(world.root, "rev-parse", "main").strip()

    answer = world.ok("feature.init", feature_id="one")

    assert plain(answer) == {
        "feature_id": "one",
        "version": 1,
        "status": "planning",
        "branch": "one",
        "worktree_path": ".worktrees/one",
        "base_branch": "main",
        "base_commit": head,
        "created": True,
        "unproven": False,
    }
    assert git(world.root, "rev-parse", "one").strip() == head
    assert git(world.root / ".worktrees/one", "symbolic-ref", "HEAD").strip() == "refs/heads/one"
    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\ntwo\nthree\n"
    assert (world.root / "agentic/features/one/state.md").read_text().startswith("---\n")
    assert events(world) == ["feature_initialised"]


@pytest.mark.req("AOP-022")
def test_a_new_feature_leaves_the_checkout_of_the_user_alone(world: World) -> None:
    (world.root / "src/a.txt").write_text("half a thought\n")
    git(world.root, "add", "src/a.txt")
    before = [
        git(world.root, *words) for words in (("status", "--porcelain"), ("symbolic-ref", "HEAD"), ("ls-files", "-s"))
    ]

    world.init()

    after = [
        git(world.root, *words) for words in (("status", "--porcelain"), ("symbolic-ref", "HEAD"), ("ls-files", "-s"))
    ]
    assert after == before


@pytest.mark.req("AOP-150", "AOP-161")
def test_init_asked_again_answers_with_what_is_there_and_changes_nothing(world: World) -> None:
    first = world.ok("feature.init", feature_id="one")
    before = world.fingerprint()

    second = world.ok("feature.init", feature_id="one")

    assert second == {**first, "created": False}
    assert world.fingerprint() == before


def test_init_of_a_feature_that_is_under_way_does_not_send_it_back(world: World) -> None:
    world.plan()
    answer = world.ok("feature.init", feature_id="one", expected_version=2)
    assert (answer["status"], answer["version"], answer["created"]) == ("building", 2, False)


@pytest.mark.req("AOP-150", "AOP-170")
@pytest.mark.parametrize("tool", ["feature.init", "repo.ensure_worktree"])
def test_a_worktree_that_somebody_removed_is_made_again_with_the_tree_of_the_feature(world: World, tool: str) -> None:
    world.plan()
    world.patch()
    shutil.rmtree(world.root / ".worktrees/one")
    git(world.root, "worktree", "prune")

    world.ok(tool, feature_id="one")

    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert git(world.root / ".worktrees/one", "symbolic-ref", "HEAD").strip() == "refs/heads/one"


def test_a_branch_that_has_no_commits_of_its_own_is_taken_over(world: World) -> None:
    git(world.root, "branch", "one")
    answer = world.ok("feature.init", feature_id="one")
    assert (answer["created"], answer["base_commit"]) == (True, git(world.root, "rev-parse", "main").strip())


@pytest.mark.req("AOP-170")
def test_the_feature_starts_where_the_base_branch_is_now(world: World) -> None:
    git(world.root, "commit", "-q", "--allow-empty", "-m", "More")
    head = git(world.root, "rev-parse", "main").strip()
    git(world.root, "checkout", "-q", "-b", "elsewhere", "main~1")
    assert world.ok("feature.init", feature_id="one")["base_commit"] == head


def own_commits(world: World) -> None:
    git(world.root, "branch", "one")
    git(world.root, "checkout", "-q", "one")
    git(world.root, "commit", "-q", "--allow-empty", "-m", "Mine")
    git(world.root, "checkout", "-q", "main")


def checked_out(world: World) -> None:
    git(world.root, "checkout", "-q", "-b", "one")


def folder_of_branches(world: World) -> None:
    git(world.root, "branch", "one/more")


@pytest.mark.parametrize("prepare", [own_commits, checked_out, folder_of_branches])
def test_a_branch_of_somebody_else_is_never_taken(world: World, prepare: Callable[[World], None]) -> None:
    prepare(world)
    error = world.refusal("feature.init", feature_id="one")
    assert (error["code"], error["details"]["requires_human"]) == ("branch_exists", True)
    assert events(world) == []


def test_a_base_branch_without_a_commit_is_refused(make_world: MakeWorld) -> None:
    world = make_world(policy={"worktree": {"base_branch": "trunk"}})
    git(world.root, "branch", "trunk")
    world.init("kept")
    git(world.root, "update-ref", "-d", "refs/heads/trunk")
    error = world.refusal("feature.init", feature_id="one")
    assert (error["code"], error["details"]["base_branch"]) == ("base_branch_unusable", "trunk")


@pytest.fixture(scope="module")
def begun(make_shared_world: MakeWorld) -> World:
    world = make_shared_world()
    world.init()
    return world


@pytest.mark.req("AOP-030")
def test_an_expected_version_that_is_not_the_current_one_is_refused(begun: World) -> None:
    error = begun.refusal("feature.init", feature_id="one", expected_version=7)
    assert error["code"] == "version_conflict"
    assert (error["details"]["expected_version"], error["details"]["current_version"]) == (7, 1)


def test_a_version_of_a_feature_that_does_not_exist_is_refused(begun: World) -> None:
    assert begun.refusal("feature.init", feature_id="two", expected_version=1)["code"] == "unknown_feature"


@pytest.mark.parametrize(
    "name", ["-D", "a..b", "@", "refs/heads/x", "a b", "A", "../../etc", "ünï", "", "x" * 64, "--upload-pack=touch x"]
)
def test_a_name_that_is_no_feature_id_reaches_nothing(begun: World, name: str) -> None:
    assert begun.refusal("feature.init", feature_id=name)["code"] in ("invalid_arguments", "invalid_feature_slug")


@pytest.mark.parametrize("name", ["main", "head", "stash", "fetch_head", "con", "one\n"])
def test_a_name_that_means_something_else_to_git_or_to_a_file_system_is_refused(begun: World, name: str) -> None:
    assert begun.refusal("feature.init", feature_id=name)["code"] == "invalid_feature_slug"


@pytest.mark.parametrize("role", [Role.PLANNER, Role.BUILDER, Role.QA])
def test_a_worker_makes_no_features(begun: World, role: Role) -> None:
    assert begun.refusal("feature.init", role=role, feature_id="two")["code"] == "forbidden_tool_for_role"


# --- feature.state_get ---------------------------------------------------------------------------


@pytest.mark.req("AOP-085", "AOP-163")
def test_the_state_is_the_front_matter_and_the_body_of_its_file(begun: World) -> None:
    state = state_of(begun)

    answer = plain(begun.ok("feature.state_get", feature_id="one"))

    assert answer == {
        "feature_id": "one",
        "version": 1,
        "front_matter": {
            "version": 1,
            "feature_id": "one",
            "branch": "one",
            "worktree_path": ".worktrees/one",
            "status": "planning",
            "gate_profile": "default",
            "gates": {"plan": "na", "fast": "na", "full": "na", "merge": "na"},
            "locks": {"held": [], "relied_on": {}},
            "collisions": {"files": [], "areas": [], "contracts": []},
            "cluster": {f"{name}_session_id": "unknown" for name in ("orchestrator", "planner", "builder", "qa")},
            "role_status": {"planner": "ready", "builder": "ready", "qa": "ready"},
            "last_updated": state.last_updated,
            "status_reason": "",
            "blocked_from": None,
            "evidence": {"last_gate_run": None, "latest_by_mode": {}, "merge": None},
            "base_commit": git(begun.root, "rev-parse", "main").strip(),
            "tree": git(begun.root, "rev-parse", "main^{tree}").strip(),
            "branch_commit": None,
            "spec": None,
        },
        "body": answer["body"],
    }
    assert (begun.root / "agentic/features/one/state.md").read_text().endswith(answer["body"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("feature.state_get", {}),
        ("feature.get_context", {}),
        ("plan.get", {}),
        ("plan.submit", {"plan_json": plan_for("nobody")}),
        ("plan.update", {"plan_json": plan_for("nobody"), "expected_plan_version": 1}),
        ("repo.ensure_worktree", {}),
        ("repo.status", {}),
        ("repo.diff", {}),
        ("repo.read_file", {"path": "src/a.txt"}),
        ("repo.search", {"query": "x"}),
        ("repo.apply_patch", {"unified_diff": "--- a/x\n"}),
        ("gates.run", {"mode": "fast"}),
        ("evidence.latest", {}),
        ("feature.approve", {"tree": "x", "base": "y"}),
        ("feature.ready_to_merge", {}),
        ("feature.state_patch", {"expected_version": 1, "patch": {"role_status": {"qa": "done"}}}),
        ("feature.log_append", {"note": "Seen."}),
        ("feature.delete", {}),
        ("feature.begin_anew", {}),
        ("repo.commit", {}),
        ("repo.rebase_onto_main", {}),
        ("repo.merge", {}),
    ],
)
def test_every_tool_says_so_when_there_is_no_such_feature(
    begun: World, tool: str, arguments: dict[str, object]
) -> None:
    error = begun.refusal(tool, role=Role.SYSTEM, feature_id="nobody", **arguments)
    assert (error["code"], error["details"]["feature_id"]) == ("unknown_feature", "nobody")


# --- feature.get_context -------------------------------------------------------------------------


@pytest.mark.req("AOP-051", "AOP-162")
def test_the_context_holds_all_that_a_fresh_worker_needs(world: World) -> None:
    spec = world.root / "agentic/features/one/spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("# Shout\n\nThe second line must be loud.\n")
    world.plan()
    world.patch()
    run = world.ok("gates.run", feature_id="one", mode="fast")

    context = plain(world.ok("feature.get_context", role=Role.QA, feature_id="one"))

    (ref,) = [hunk["ref"] for item in context["qa_index"]["items"] for hunk in item["hunks"]]
    assert context == {
        "feature_id": "one",
        "spec": "# Shout\n\nThe second line must be loud.\n",
        "state": plain(world.ok("feature.state_get", feature_id="one"))["front_matter"],
        "plan": plan_for("one"),
        "evidence": {"fast": plain(world.ok("evidence.latest", feature_id="one"))["latest"]},
        "qa_index": {
            "version": 1,
            "feature_id": "one",
            "source_diff_ref": f"{context['state']['base_commit']}..{context['state']['tree']}",
            "items": [
                {
                    "path": "src/a.txt",
                    "hunks": [{"ref": ref, "start_line": 2, "end_line": 2, "change_type": "modified"}],
                    "required_tests": ["full:check"],
                    "status": "pending",
                }
            ],
        },
        "requests": [],
        "obligations": {
            "spec_changed": False,
            "left_out": 0,
            "counts": {"unaccounted": 1, "missing": 0, "claimed": 0, "deferred": 0, "met": 0},
            "rows": [
                {
                    "id": "O1",
                    "line": 3,
                    "section": "Shout",
                    "text": "The second line must be loud.",
                    "standing": "unaccounted",
                    "why": "The plan does not mention it.",
                    "paths": [],
                    "tests": [],
                }
            ],
        },
    }
    assert context["evidence"]["fast"]["run_id"] == run["gate_run_id"]


def test_the_context_of_a_new_feature_has_neither_spec_nor_plan_nor_evidence(begun: World) -> None:
    context = begun.ok("feature.get_context", feature_id="one")
    assert [context[key] for key in ("spec", "plan", "evidence", "qa_index")] == [None, None, {}, None]


def test_a_secret_in_a_spec_does_not_reach_a_worker(begun: World) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    spec = begun.root / "agentic/features/one/spec.md"
    spec.write_text(f"Use {secret} to log in.\n")
    text = begun.ok("feature.get_context", feature_id="one")["spec"]
    spec.unlink()
    assert secret not in text
    assert text.startswith("Use ")


@pytest.mark.parametrize(
    "make", [lambda spec: spec.symlink_to("/etc/hostname"), lambda spec: spec.write_bytes(b"x" * 300_000)]
)
def test_a_spec_that_is_a_link_or_far_too_long_is_not_read(begun: World, make: Callable[..., object]) -> None:
    spec = begun.root / "agentic/features/one/spec.md"
    make(spec)
    try:
        assert begun.call("feature.get_context", feature_id="one").error is not None
    finally:
        spec.unlink()
