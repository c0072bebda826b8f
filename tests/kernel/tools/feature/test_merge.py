"""feature.approve and feature.ready_to_merge: one approved tree, merged once, with nobody's work touched."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.ids import ApprovalId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.principals import Principal
from aop.kernel.merges.approval_tokens import PREFIX, token_for
from aop.kernel.merges.merge import commit_message
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import HeldLocks, Status
from aop.kernel.record.documents.runs import WorkRequest
from tests.clocks import clocked
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import GATES, POLICY, events, force, gates_of, patch_of, plain, state_of, step, yaml
from tests.world import World, files, git, plan_for

ALL_STRATEGIES = {"merge_policy": {"allowed_strategies": ["merge_commit", "squash", "rebase"]}}


def merge(world: World, feature: str = "one", **more: Any) -> Envelope:
    return world.call("feature.ready_to_merge", feature_id=feature, **more)


def refused(world: World, feature: str = "one", **more: Any) -> Mapping[str, Any]:
    return world.refusal("feature.ready_to_merge", feature_id=feature, **more)


def head(world: World, branch: str = "main") -> str:
    return git(world.root, "rev-parse", branch).strip()


def commit(world: World, path: str, text: str) -> None:
    """Commit a file on the checked-out base branch, as a person would."""
    (world.root / path).write_text(text)
    git(world.root, "add", path)
    git(world.root, "commit", "-qm", f"Change {path}")


def approvals(world: World) -> list[Approval]:
    with world.app.record.read() as view:
        return list(view.all(Approval))


# --- feature.approve -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready(make_shared_world: MakeWorld) -> World:
    """One feature that may be merged, another beside it, and a third that is not so far."""
    world = make_shared_world()
    world.ready()
    world.ready("two", patch_of("src/two.txt", "x"), files=files(create=("src/two.txt",)))
    world.plan("three", files=files(create=("src/three.txt",)))
    return world


def test_an_approval_names_the_tree_the_base_the_evidence_and_the_person(readied: World) -> None:
    state = state_of(readied)

    answer = plain(readied.ok("feature.approve", feature_id="one", tree=state.tree, base=head(readied)))

    assert answer == {
        "feature_id": "one",
        "approval_id": answer["approval_id"],
        "tree": state.tree,
        "base": head(readied),
        "gate_runs": {mode: state.evidence.latest_by_mode[mode] for mode in ("fast", "full")},
        "approved_by": "person:ada",
        "approved_at": answer["approved_at"],
        "signer": "",
        "token": answer["token"],
    }
    assert answer["token"].startswith(f"{PREFIX}.")
    assert events(readied)[-1] == "approval_granted"
    assert state_of(readied) == state


@pytest.mark.hostile("T17")
def test_the_token_is_in_no_record_and_in_no_file(readied: World) -> None:
    signature = readied.approval().rpartition(".")[2].encode()
    written = [path for path in readied.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in written if signature in path.read_bytes()] == []


def test_the_same_operation_gives_the_same_token(ready: World) -> None:
    arguments: Any = {"feature_id": "one", "tree": state_of(ready).tree, "base": head(ready)}
    first, second = (ready.call("feature.approve", operation="approve-once", **arguments) for _ in range(2))
    assert plain(first.data) == plain(second.data)
    assert len([each for each in approvals(ready) if each.feature_id == "one"]) == 1


def test_what_was_shown_is_what_is_approved(ready: World) -> None:
    tree, base = state_of(ready).tree, head(ready)
    for stale in ({"tree": base, "base": base}, {"tree": tree, "base": tree}):
        assert ready.refusal("feature.approve", feature_id="one", **stale)["code"] == "approval_invalid"


def test_a_feature_that_is_not_ready_is_not_approved(ready: World) -> None:
    error = ready.refusal("feature.approve", feature_id="three", tree=state_of(ready, "three").tree, base=head(ready))
    assert (error["code"], error["details"]["status"]) == ("invalid_status_transition", "building")


@pytest.mark.req("AOP-184")
@pytest.mark.parametrize("gates", [gates_of(full=step("exit 1")), gates_of(fast=step("true"))])
def test_a_feature_that_is_not_proven_any_more_is_neither_approved_nor_merged(readied: World, gates: str) -> None:
    token = readied.approval()
    commit(readied, GATES, gates)
    error = readied.refusal("feature.approve", feature_id="one", tree=state_of(readied).tree, base=head(readied))
    assert (error["code"], len(error["details"]["problems"])) == ("evidence_stale", 1)
    assert refused(readied, user_approval_token=token)["code"] == "evidence_stale"


@pytest.mark.req("AOP-184")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        (GATES, gates_of(thresholds={"coverage_line_target": 0.5})),
        (POLICY, yaml(version=1, execution={"env_allowlist": ["LANG"]})),
        (POLICY, yaml(version=1, testing={"allow_flaky_gates": False})),
        (POLICY, yaml(version=1, gates={"base_tests": "off"})),
    ],
    ids=["thresholds", "execution", "testing", "base tests"],
)
def test_a_pass_proves_nothing_once_another_rule_decides_what_it_means(readied: World, path: str, text: str) -> None:
    commit(readied, path, text)
    error = readied.refusal("feature.approve", feature_id="one", tree=state_of(readied).tree, base=head(readied))
    assert (error["code"], len(error["details"]["problems"])) == ("evidence_stale", 2)


@pytest.mark.req("AOP-184")
@pytest.mark.hostile("T14")
def test_gates_that_fail_after_the_approval_stop_the_merge(make_world: MakeWorld, tmp_path: Path) -> None:
    flaky = f"test ! -e {tmp_path}/ran || exit 1; touch {tmp_path}/ran"
    policy = {"execution": {"sandbox_write": [str(tmp_path)]}}
    world = make_world(policy=policy, gates=gates_of(full=step(flaky)))
    world.ready()
    token = world.approval()
    assert not world.call("gates.run", feature_id="one", mode="full", force=True).ok
    error = refused(world, user_approval_token=token)
    assert (error["code"], error["details"]["problems"]) == ("evidence_stale", ["`full` did not pass"])


@pytest.mark.req("AOP-011", "AOP-266")
@pytest.mark.parametrize("role", [Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA])
@pytest.mark.parametrize("tool", ["feature.approve", "feature.ready_to_merge"])
def test_no_worker_approves_or_merges_whatever_its_role(ready: World, tool: str, role: Role) -> None:
    before = ready.fingerprint()
    more = {"tree": state_of(ready).tree, "base": head(ready)} if tool == "feature.approve" else {}
    answer = ready.call_as_worker(tool, role, "one", feature_id="one", **more)
    assert (answer.error or {})["code"] == "forbidden_tool_for_role"
    listed = ready.app.gateway.tools_for(Principal(role=role, actor="worker"))
    assert tool not in [each.name for each in listed]
    assert ready.fingerprint() == before


# --- the token -----------------------------------------------------------------------------------


def forged(world: World, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """Change what a good token says, and leave its signature."""
    prefix, payload, signature = world.approval().split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    changed = base64.urlsafe_b64encode(json.dumps(change(claims)).encode()).rstrip(b"=").decode()
    return f"{prefix}.{changed}.{signature}"


@pytest.mark.req("AOP-185", "AOP-266", "AOP-323")
@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_a_person_is_asked(ready: World, token: str | None) -> None:
    error = refused(ready, user_approval_token=token)
    assert (error["code"], error["details"]["requires_human"]) == ("user_approval_required", True)


@pytest.mark.req("AOP-185")
@pytest.mark.hostile("T01", "T19")
@pytest.mark.parametrize(
    "token",
    [
        "yes",
        "approved",
        "..",
        f"{PREFIX}..",
        f"{PREFIX}.e30.x",
        "aop2.e30.x",
        f"{PREFIX}.ünï.x",
        "eyJhbGciOiJub25lIn0.e30.",
        "x" * 5000,
        f"{PREFIX}.{'x' * 5000}.y",
    ],
)
def test_what_aop_approve_did_not_print_is_no_token(ready: World, token: str) -> None:
    assert refused(ready, user_approval_token=token)["code"] == "approval_invalid"


@pytest.mark.hostile("T06")
@pytest.mark.parametrize("change", [lambda claims: {**claims, "feature_id": "two"}, lambda claims: claims])
def test_a_token_that_was_written_anew_is_refused(ready: World, change: Callable[..., dict[str, Any]]) -> None:
    assert refused(ready, user_approval_token=forged(ready, change))["code"] == "approval_invalid"


def test_a_token_opens_the_merge_of_its_own_feature_only(ready: World) -> None:
    error = refused(ready, "two", user_approval_token=ready.approval("one"))
    assert error["code"] == "approval_invalid"
    assert error["message"] == "The approval is not for `two` in this repository."


def test_a_token_of_another_repository_opens_nothing(ready: World, make_world: MakeWorld) -> None:
    other = make_world()
    other.ready()
    assert refused(ready, user_approval_token=other.approval())["code"] == "approval_invalid"


def test_a_token_whose_approval_is_not_in_the_record_opens_nothing(ready: World) -> None:
    ready.approval()
    unknown = msgspec.structs.replace(approvals(ready)[0], approval_id=ApprovalId("approval-nobody"))
    token = token_for(unknown, ready.app.gateway.kernel.signer)
    assert refused(ready, user_approval_token=token)["code"] == "approval_invalid"


@pytest.mark.hostile("T07")
@pytest.mark.parametrize("body", ['{"a": 1}', '{"role": 1, "role": 2}', "[]", "not json"])
def test_a_signed_token_of_another_shape_is_refused(ready: World, body: str) -> None:
    payload = base64.urlsafe_b64encode(body.encode()).rstrip(b"=").decode()
    signature = ready.app.gateway.kernel.signer.sign(f"approval:{PREFIX}:{payload}".encode())
    assert refused(ready, user_approval_token=f"{PREFIX}.{payload}.{signature}")["code"] == "approval_invalid"


# --- what else must hold -------------------------------------------------------------------------


@pytest.mark.req("AOP-183", "AOP-254")
def test_only_what_is_ready_to_merge_is_merged(ready: World) -> None:
    error = refused(ready, "three", user_approval_token=ready.approval())
    assert (error["code"], error["details"]["status"]) == ("invalid_status_transition", "building")


@pytest.mark.req("AOP-125", "AOP-186")
def test_a_strategy_that_the_policy_does_not_allow_is_refused(ready: World) -> None:
    error = refused(ready, user_approval_token=ready.approval(), merge_strategy="rebase")
    assert (error["code"], error["details"]["allowed"]) == ("strategy_not_allowed", ["merge_commit", "squash"])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"merge_strategy": "octopus"}, "invalid_arguments"),
        ({"commit_message": "x" * 100_001}, "invalid_arguments"),
        ({"force": True}, "invalid_arguments"),
        ({"expected_version": 1}, "version_conflict"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(ready: World, more: dict[str, Any], code: str) -> None:
    assert refused(ready, user_approval_token=ready.approval(), **more)["code"] == code


@pytest.mark.hostile("M13")
def test_a_base_branch_that_is_gone_is_refused(readied: World) -> None:
    token = readied.approval()
    git(readied.root, "update-ref", "-d", "refs/heads/main")
    assert refused(readied, user_approval_token=token)["code"] == "base_branch_unusable"


@pytest.mark.req("AOP-224")
def test_a_lock_that_was_lost_stops_the_merge_and_a_merge_gives_locks_back(world: World) -> None:
    world.init()
    world.init("two")
    world.ok("locks.acquire", feature_id="one", resource="db_migrations")
    plan = plan_for("one", contracts={"openapi": "none", "events": "none", "db": "migration"})
    world.ok("plan.submit", feature_id="one", plan_json=plan)
    world.patch()
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    token = world.approval()
    clock = clocked(world)
    clock.go_on(301)
    error = refused(world, user_approval_token=token)
    assert (error["code"], error["details"]["resources"]) == ("lock_not_held", ["db_migrations"])
    world.ok("locks.acquire", feature_id="one", resource="db_migrations")
    assert merge(world, user_approval_token=token).ok
    assert state_of(world).locks == HeldLocks()
    assert events(world)[-2:] == ["feature_merged", "lock_released"]
    assert world.ok("locks.acquire", feature_id="two", resource="db_migrations")["fence"] == 2


@pytest.mark.req("AOP-184")
def test_a_profile_without_merge_gates_cannot_merge_unless_the_policy_says_so(make_world: MakeWorld) -> None:
    strict = make_world(gates=gates_of(without_merge=True))
    strict.ready()
    error = refused(strict, user_approval_token=strict.approval())
    assert (error["code"], error["details"]["mode"]) == ("unknown_gate_profile_or_mode", "merge")

    lenient = make_world(gates=gates_of(without_merge=True), policy={"merge_mode_optional": True})
    lenient.ready()
    full = state_of(lenient).evidence.latest_by_mode["full"]
    answer = merge(lenient, user_approval_token=lenient.approval())
    assert answer.data["gates"] == {"plan": "pass", "fast": "pass", "full": "pass", "merge": "pass"}
    assert answer.evidence["command"] == ["sh", "check.sh"]
    assert state_of(lenient).evidence.latest_by_mode["full"] == full


@pytest.mark.req("AOP-125", "AOP-185")
def test_a_policy_may_do_without_approvals(make_world: MakeWorld) -> None:
    world = make_world(policy={"merge_policy": {"require_user_approval": False}})
    world.ready()
    assert merge(world).data["status"] == "merged"


# --- a merge -------------------------------------------------------------------------------------


@pytest.mark.req("AOP-128", "AOP-187", "AOP-188", "AOP-245", "AOP-251")
def test_a_merge_commits_the_approved_tree_and_merges_it(readied: World) -> None:
    git(readied.root, "config", "user.name", "Grace")
    git(readied.root, "config", "user.email", "grace@example.org")
    state, base, token = state_of(readied), head(readied), readied.approval()
    approval = approvals(readied)[0]

    answer = merge(readied, user_approval_token=token, commit_message="Shout\n\nThe second line is loud now.")

    merged = plain(answer.data)
    gates = {"plan": "pass", "fast": "pass", "full": "pass", "merge": "pass"}
    assert {key: merged[key] for key in merged if key != "notice"} == {
        "feature_id": "one",
        "version": state.version + 1,
        "status": "merged",
        "commit": head(readied, "one"),
        "merge_commit": head(readied),
        "base_branch": "main",
        "strategy": "merge_commit",
        "gates": gates,
    }
    assert git(readied.root, "log", "-1", "--format=%P", "main").split() == [base, merged["commit"]]
    assert git(readied.root, "log", "-1", "--format=%P %T", "one").split() == [base, state.tree]
    trailers = f"AOP-Feature: one\nAOP-Tree: {state.tree}\nAOP-Approval: {approval.approval_id}\n"
    body = f"Shout\n\nThe second line is loud now.\n\n{trailers}"
    assert git(readied.root, "log", "-1", "--format=%B", "one") == f"{body}\n"
    assert git(readied.root, "log", "-1", "--format=%B", "main") == f"Merge feature one\n\n{body}\n"
    people = git(readied.root, "log", "-1", "--format=%an <%ae> %cn <%ce>", "main").strip()
    assert people == "Grace <grace@example.org> AOP <aop@localhost>"
    assert git(readied.root, "show", "main:src/a.txt") == "one\nTWO\nthree\n"

    after = state_of(readied)
    proof = after.evidence.merge
    assert (after.status, after.locks.held, proof and plain(proof)) == (
        Status.MERGED,
        (),
        {
            "commit": merged["commit"],
            "merge_commit": merged["merge_commit"],
            "strategy": "merge_commit",
            "approval_id": approval.approval_id,
            "gates": gates,
        },
    )
    assert answer.evidence["gate_run_id"] == after.evidence.latest_by_mode["merge"]
    assert events(readied)[-1] == "feature_merged"
    assert approvals(readied)[0].spent_by is not None


@pytest.mark.req("AOP-095", "AOP-251")
def test_a_merged_feature_is_listed_as_merged(readied: World) -> None:
    assert merge(readied, user_approval_token=readied.approval()).ok
    index = json.loads((readied.root / "agentic/features/index.json").read_text())
    assert (index["active"], index["merged"]) == ([], ["one"])


@pytest.mark.req("AOP-125", "AOP-186")
@pytest.mark.parametrize("strategy", ["squash", "rebase", "merge_commit"])
def test_each_strategy_brings_the_feature_onto_a_base_that_went_on(make_world: MakeWorld, strategy: str) -> None:
    world = make_world(policy=ALL_STRATEGIES)
    world.ready()
    commit(world, "README.md", "Meanwhile.\n")
    base = head(world)

    merged = merge(world, user_approval_token=world.approval(), merge_strategy=strategy).data

    parents = git(world.root, "log", "-1", "--format=%P", "main").split()
    assert parents == ([base, merged["commit"]] if strategy == "merge_commit" else [base])
    assert git(world.root, "show", "main:README.md") == "Meanwhile.\n"
    assert git(world.root, "show", "main:src/a.txt") == "one\nTWO\nthree\n"
    assert (merged["strategy"], state_of(world).status) == (strategy, Status.MERGED)


@pytest.mark.req("AOP-187")
def test_the_same_approval_makes_the_same_commits(readied: World, tmp_path: Path) -> None:
    token = readied.approval()
    shutil.copytree(readied.root, tmp_path / "copy", symlinks=True)
    twin = World(tmp_path / "copy")
    try:
        made = [merge(each, user_approval_token=token, commit_message="Shout").data for each in (readied, twin)]
    finally:
        twin.close()
    assert made[0]["commit"] == made[1]["commit"]
    assert made[0]["merge_commit"] == made[1]["merge_commit"]


HOOKS = ("post-checkout", "post-commit", "post-merge", "pre-commit", "pre-merge-commit", "reference-transaction")


@pytest.mark.req("AOP-022")
@pytest.mark.hostile("M05", "M06", "M07")
def test_the_checkout_of_the_user_is_left_alone_byte_for_byte_and_no_hook_runs(readied: World) -> None:
    for name in HOOKS:
        hook = readied.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {readied.root}/../hook-ran\n")
        hook.chmod(0o755)
    token = readied.approval()
    (readied.root / "src/a.txt").write_text("half a thought\n")
    (readied.root / "staged.txt").write_text("staged\n")
    (readied.root / "loose.txt").write_text("loose\n")
    (readied.root.parent / "hook-ran").unlink(missing_ok=True)
    git(readied.root, "-c", "core.hooksPath=/dev/null", "add", "staged.txt")
    before = checkout_of(readied)

    answer = merge(readied, user_approval_token=token)

    assert answer.ok
    assert checkout_of(readied) == before
    assert not (readied.root.parent / "hook-ran").exists()
    assert "`main` is checked out at the repository's root" in answer.data["notice"]
    assert str(readied.root) not in answer.data["notice"]
    assert len(git(readied.root, "worktree", "list").splitlines()) == 2
    assert list((readied.root / ".aop/scratch").iterdir()) == []


def checkout_of(world: World) -> dict[str, bytes]:
    """Return every byte of the user's own checkout, of its index, its HEAD and its config."""
    ours = (".aop", ".worktrees", ".git", "agentic/features")
    seen = {name: (world.root / ".git" / name).read_bytes() for name in ("index", "HEAD", "config")}
    for path in sorted(world.root.rglob("*")):
        inside = path.relative_to(world.root).as_posix()
        if path.is_file() and not any(f"{inside}/".startswith(f"{own}/") for own in ours):
            seen[inside] = path.read_bytes()
    return seen


def test_nothing_is_said_of_a_checkout_when_nobody_has_the_base_branch_checked_out(readied: World) -> None:
    token = readied.approval()
    git(readied.root, "checkout", "-q", "-b", "elsewhere")
    assert merge(readied, user_approval_token=token).data["notice"] == ""


# --- a merge that cannot be ----------------------------------------------------------------------


@pytest.mark.hostile("T11")
def test_a_token_opens_one_merge(readied: World) -> None:
    token = readied.approval()
    assert merge(readied, user_approval_token=token).ok
    force(readied, status=Status.READY_TO_MERGE)
    error = refused(readied, user_approval_token=token)
    assert error["code"] == "approval_invalid"
    assert "it was used already" in error["details"]["reasons"]


def another_patch(world: World) -> None:
    force(world, status=Status.QA)
    world.patch(diff=patch_of("src/a.txt", "again", old=("one", "TWO", "three")))
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)


def base_moved(world: World) -> None:
    commit(world, "README.md", "Meanwhile.\n")


def gates_again(world: World) -> None:
    world.ok("gates.run", feature_id="one", mode="full", force=True)


@pytest.mark.req("AOP-185")
@pytest.mark.hostile("M09", "T13")
@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (
            another_patch,
            [
                "the feature was sent back after it",
                "the feature was changed after it",
                "the gates ran again after it",
            ],
        ),
        (base_moved, ["the base branch moved after it"]),
        (gates_again, ["the gates ran again after it"]),
    ],
)
def test_an_approval_is_void_after(readied: World, change: Callable[[World], None], reasons: list[str]) -> None:
    token = readied.approval()
    change(readied)
    error = refused(readied, user_approval_token=token)
    assert (error["code"], error["details"]["reasons"]) == ("approval_invalid", reasons)
    assert merge(readied, user_approval_token=readied.approval()).ok


def test_an_approval_is_void_after_the_policy_changed(readied: World) -> None:
    token = readied.approval()
    (readied.root / POLICY).write_text(yaml(version=1, thresholds={"mood": 0.5}))
    later = World(readied.root)
    try:
        error = refused(later, user_approval_token=token)
    finally:
        later.close()
    assert (error["code"], error["details"]["reasons"]) == (
        "approval_invalid",
        ["the configuration was changed after it"],
    )


@pytest.mark.hostile("M03")
@pytest.mark.parametrize("tool", ["feature.approve", "feature.ready_to_merge"])
def test_a_conflict_names_its_files_and_sends_the_feature_back(readied: World, tool: str) -> None:
    commit(readied, "src/a.txt", "one\nzwei\nthree\n")
    before, refs = state_of(readied), git(readied.root, "for-each-ref")
    more: dict[str, Any] = {"tree": before.tree, "base": head(readied)} if tool == "feature.approve" else {}
    error = readied.call(tool, feature_id="one", **more).error or {}
    assert (error["code"], error["details"]["paths"]) == ("merge_conflict", ["src/a.txt"])
    assert error["details"]["suggested_next_actions"] == [
        "`repo.follow_base` moves it to the new base and hands the conflict to a builder; `run.resume` continues."
    ]
    after = state_of(readied)
    assert (after.status, after.status_reason) == (
        "building",
        "`one` conflicts with the base branch in 1 file. (`src/a.txt`)",
    )
    assert (after.tree, after.base_commit, git(readied.root, "for-each-ref")) == (before.tree, before.base_commit, refs)
    with readied.app.record.read() as view:
        request = view.get(WorkRequest, "one")
    assert request is not None
    assert request.again


def test_a_base_branch_of_another_history_is_a_conflict_without_files(readied: World) -> None:
    unrelated = git(readied.root, "commit-tree", "main^{tree}", "-m", "A past of its own").strip()
    git(readied.root, "update-ref", "refs/heads/main", unrelated)
    error = merge(readied).error or {}
    assert (error["code"], error["details"]["paths"], error["details"]["conflicts"]) == ("merge_conflict", [], [])
    assert "no commit in common" in error["message"]


@pytest.mark.req("AOP-184")
@pytest.mark.hostile("M02")
def test_the_merged_tree_itself_must_pass_its_gates(make_world: MakeWorld) -> None:
    quarrel = step("test ! -e src/mine.txt || test ! -e src/yours.txt")
    world = make_world(gates=gates_of(merge=quarrel))
    world.ready(diff=patch_of("src/mine.txt", "x"), files=files(create=("src/mine.txt",)))
    commit(world, "src/yours.txt", "y\n")
    token, base, refs = world.approval(), head(world), git(world.root, "for-each-ref")

    answer = merge(world, user_approval_token=token)

    assert (answer.error or {})["code"] == "gate_failed"
    assert answer.evidence["exit_code"] == 1
    assert (head(world), git(world.root, "for-each-ref")) == (base, refs)
    state = state_of(world)
    assert (state.status, state.gates["merge"]) == (Status.READY_TO_MERGE, "fail")
    assert events(world)[-1] == "gates_ran"
    assert approvals(world)[0].spent_by is None
    assert list((world.root / ".aop/scratch").iterdir()) == []


@pytest.mark.hostile("M01")
def test_a_base_branch_that_moves_while_the_merge_is_proven_is_never_overwritten(readied: World) -> None:
    token = readied.approval()
    branch = head(readied, "one")
    arguments = {"feature_id": "one", "user_approval_token": token}

    answer = readied.app.gateway.call(
        readied.app.person,
        "feature.ready_to_merge",
        arguments,
        report=lambda _line: commit(readied, "README.md", "Fast.\n"),
    )

    error = answer.error or {}
    assert (error["code"], error["details"]["retryable"]) == ("base_moved", True)
    assert git(readied.root, "log", "-1", "--format=%s", "main").strip() == "Change README.md"
    assert head(readied, "one") == branch
    assert approvals(readied)[0].spent_by is None
    assert state_of(readied).status is Status.READY_TO_MERGE
    assert merge(readied, user_approval_token=readied.approval()).ok


@pytest.mark.req("AOP-185")
@pytest.mark.hostile("T11")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spent_by": "op-elsewhere"}, "it was used already"),
        ({"withdrawn": "A person has second thoughts"}, "the feature was sent back after it"),
    ],
    ids=["used", "withdrawn"],
)
def test_an_approval_that_ends_while_its_merge_is_proven_merges_nothing(
    readied: World, change: dict[str, str], why: str
) -> None:
    token, main = readied.approval(), head(readied)

    def end_approval(_line: str) -> None:
        with readied.app.record.write() as tx:
            (given,) = tx.all(Approval)
            if not given.spent_by and not given.withdrawn:
                tx.put(revise(given, **change), given.approval_id)

    answer = readied.app.gateway.call(
        readied.app.person,
        "feature.ready_to_merge",
        {"feature_id": "one", "user_approval_token": token},
        report=end_approval,
    )
    error = answer.error or {}
    assert (error["code"], error["message"]) == ("approval_invalid", f"The approval of `one` is void: {why}.")
    assert head(readied) == main
    assert state_of(readied).status is Status.READY_TO_MERGE


def commit_by_hand(world: World) -> None:
    worktree = world.root / ".worktrees/one"
    (worktree / "by-hand.txt").write_text("mine\n")
    git(worktree, "add", "by-hand.txt")
    git(worktree, "commit", "-qm", "Mine")


def delete_branch(world: World) -> None:
    git(world.root, "update-ref", "-d", "refs/heads/one")


@pytest.mark.parametrize("change", [commit_by_hand, delete_branch])
def test_a_feature_branch_that_a_person_changed_is_not_overwritten(
    readied: World, change: Callable[[World], None]
) -> None:
    token = readied.approval()
    change(readied)
    refs = git(readied.root, "for-each-ref")
    answer = merge(readied, user_approval_token=token)
    assert (answer.error or {})["code"] == "feature_branch_moved"
    assert git(readied.root, "for-each-ref") == refs
    assert approvals(readied)[0].spent_by is None


def test_a_commit_that_a_person_made_of_the_very_tree_is_no_obstacle(readied: World) -> None:
    git(readied.root / ".worktrees/one", "commit", "-qm", "The same")
    assert merge(readied, user_approval_token=readied.approval()).ok


@pytest.mark.hostile("M14")
def test_of_two_merges_at_once_the_second_is_proven_on_what_the_first_made(readied: World) -> None:
    readied.ready("two", patch_of("src/two.txt", "x"), files=files(create=("src/two.txt",)))
    tokens = {name: readied.approval(name) for name in ("one", "two")}

    outcomes = in_parallel(readied, [{"feature": name, "user_approval_token": tokens[name]} for name in tokens])

    assert sorted(outcomes.values()) == ["approval_invalid", "merged"]
    late = next(name for name, outcome in outcomes.items() if outcome != "merged")
    assert merge(readied, late, user_approval_token=readied.approval(late)).ok
    assert git(readied.root, "ls-tree", "--name-only", "main", "src/").split() == [
        "src/a.txt",
        "src/b.txt",
        "src/two.txt",
    ]
    assert git(readied.root, "show", "main:src/a.txt") == "one\nTWO\nthree\n"


@pytest.mark.hostile("T23")
def test_of_merges_that_race_on_one_approval_exactly_one_wins(readied: World) -> None:
    token = readied.approval()
    base = head(readied)
    calls = [{"feature": "one", "user_approval_token": token, "label": str(number)} for number in range(3)]
    outcomes = sorted(in_parallel(readied, calls).values())
    assert outcomes == ["invalid_status_transition", "invalid_status_transition", "merged"]
    assert git(readied.root, "rev-list", "--count", f"{base}..main").strip() == "2"


def in_parallel(world: World, calls: list[dict[str, str]]) -> dict[str, str]:
    """Send merges at the same time, each from a world of its own; return what became of each."""

    def send(call: dict[str, str]) -> tuple[str, str]:
        label = call.pop("label", call["feature"])
        own = World(world.root)
        try:
            answer = merge(own, **call)
        finally:
            own.close()
        return label, "merged" if answer.error is None else str(answer.error["code"])

    with ThreadPoolExecutor(len(calls)) as pool:
        return dict(pool.map(send, calls))


# --- the commit message --------------------------------------------------------------------------


@pytest.mark.hostile("M15")
@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("Shout", "Shout"),
        ("", "Add feature one"),
        ("  \r\n \n", "Add feature one"),
        ("Shout\r\n\r\nLoud\r\n", "Shout\n\nLoud"),
        ("Sh\0ou\x1b[31mt\x07\u202e", "Shou[31mt"),
        ("Shout\n\nSigned-off-by: Eve <eve@example.org>", "Shout"),
        ("Shout\n\n  CO-AUTHORED-BY : Eve\nReviewed-by:Eve\nAcked-by: Eve\nTested-by: Eve", "Shout"),
        ("Shout\n\nAOP-Approval: approval-forged\naop-tree: 0000", "Shout"),
        ("AOP-12: shout\n\nIt is signed-off-by: nobody", "AOP-12: shout\n\nIt is signed-off-by: nobody"),
        ("x" * 20_000, "x" * 10_000),
    ],
)
def test_a_message_is_kept_without_what_it_forges(ready: World, message: str, kept: str) -> None:
    state = state_of(ready)
    assert commit_message(message, state, None) == f"{kept}\n\nAOP-Feature: one\nAOP-Tree: {state.tree}\n"


def test_the_message_of_a_merge_is_cleaned_on_its_way_into_git(readied: World) -> None:
    nasty = "Shout\0\r\n\r\nSigned-off-by: Eve <eve@example.org>\r\nAOP-Approval: mine"
    assert merge(readied, user_approval_token=readied.approval(), commit_message=nasty, merge_strategy="squash").ok
    trailers = git(readied.root, "log", "-1", "--format=%(trailers:only,unfold)", "main").strip().splitlines()
    assert [line.partition(":")[0] for line in trailers] == ["AOP-Feature", "AOP-Tree", "AOP-Approval"]
    assert "Eve" not in git(readied.root, "log", "-1", "--format=%B%an%cn", "main")
    assert approvals(readied)[0].approval_id in trailers[2]


def test_a_feature_that_changes_nothing_is_neither_approved_nor_merged(world: World) -> None:
    world.plan()
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    status = world.ok("repo.status", feature_id="one")
    seen = {"tree": status["tree"], "base": status["base_head"]}

    assert world.refusal("feature.approve", feature_id="one", **seen)["code"] == "nothing_to_merge"
    assert world.refusal("feature.ready_to_merge", feature_id="one")["code"] == "nothing_to_merge"
