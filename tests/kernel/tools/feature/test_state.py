"""feature.state_patch and feature.log_append."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aop.core.roles import Role
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import events, force, plain, state_of
from tests.world import PATCH, World

# --- feature.state_patch -------------------------------------------------------------------------


def patch_state(world: World, *, version: int | None = None, **patch: Any) -> Any:
    expected = version or state_of(world).version
    return world.ok("feature.state_patch", feature_id="one", expected_version=expected, patch=patch)


def refused_patch(world: World, *, role: Role = Role.ORCHESTRATOR, **patch: Any) -> Any:
    expected = state_of(world).version
    return world.refusal("feature.state_patch", role=role, feature_id="one", expected_version=expected, patch=patch)


@pytest.mark.req("AOP-164")
def test_a_patch_sets_who_works_on_the_feature_and_leaves_the_rest(world: World) -> None:
    world.init()
    before = state_of(world)

    answer = patch_state(world, role_status={"builder": "running"}, cluster={"qa_session_id": "s-7"})

    assert plain(answer) == {
        "feature_id": "one",
        "version": 2,
        "status": "planning",
        "status_reason": "",
        "changed": ["role_status", "cluster"],
    }
    after = state_of(world)
    assert (after.role_status.builder, after.role_status.planner) == ("running", "ready")
    assert (after.cluster.qa_session_id, after.cluster.planner_session_id) == ("s-7", "unknown")
    assert (after.tree, after.base_commit, after.gates) == (before.tree, before.base_commit, before.gates)
    assert events(world) == ["feature_initialised", "state_patched"]


@pytest.mark.req("AOP-252", "AOP-253")
def test_a_feature_is_blocked_and_goes_on_where_it_was_each_time_with_a_reason(world: World) -> None:
    world.plan()
    patch_state(world, status="blocked", status_reason="The design is not decided.")
    assert world.ok("report.dashboard")["counts"]["blocked"] == 1
    answer = patch_state(world, status="building", status_reason="It is decided.")
    assert (answer["status"], answer["status_reason"]) == ("building", "It is decided.")
    told = (world.root / "agentic/features/one/decisions.md").read_text()
    assert "The status went from `building` to `blocked`: The design is not decided." in told
    assert "The status went from `blocked` to `building`: It is decided." in told


@pytest.mark.req("AOP-048", "AOP-247", "AOP-254")
@pytest.mark.parametrize(
    ("now", "wish", "allowed"),
    [
        ("planning", "building", ["blocked", "failed"]),
        ("planning", "merged", ["blocked", "failed"]),
        ("building", "qa", ["blocked", "failed"]),
        ("building", "planning", ["blocked", "failed"]),
        ("qa", "ready_to_merge", ["blocked", "failed"]),
        ("ready_to_merge", "merged", ["blocked", "building", "failed", "qa"]),
        ("ready_to_merge", "planning", ["blocked", "building", "failed", "qa"]),
        ("merged", "building", []),
        ("failed", "planning", []),
    ],
)
def test_a_step_that_needs_proof_is_never_taken_by_hand(world: World, now: str, wish: str, allowed: list[str]) -> None:
    world.init()
    force(world, status=now)
    error = refused_patch(world, status=wish, status_reason="Please.")
    assert (error["code"], error["details"]["allowed"]) == ("invalid_status_transition", allowed)


def test_blocking_is_no_way_around_the_gates(world: World) -> None:
    world.plan()
    patch_state(world, status="blocked", status_reason="A pause.")
    error = refused_patch(world, status="qa", status_reason="It looks done.")
    assert error["details"]["allowed"] == ["building", "failed", "planning"]


@pytest.mark.parametrize("status", ["blocked", "failed"])
def test_a_status_is_not_set_without_a_reason(world: World, status: str) -> None:
    world.init()
    error = refused_patch(world, status=status)
    assert error["code"] == "invalid_status_transition"
    assert error["message"] == f"The feature `one` cannot become `{status}` without a reason."


@pytest.mark.req("AOP-164")
@pytest.mark.parametrize(
    "patch",
    [
        {"tree": "0" * 40},
        {"base_commit": "0" * 40},
        {"gates": {"full": "pass"}},
        {"evidence": {"last_gate_run": "run-1"}},
        {"version": 9},
        {"locks": {"held": ["openapi"]}},
        {"branch": "main"},
        {"worktree_path": "../elsewhere"},
        {"status": "done", "status_reason": "x"},
        {"status_reason": ""},
        {"status_reason": "x" * 1001},
        {"role_status": {"boss": "ready"}},
        {"role_status": {"qa": "asleep"}},
        {"cluster": {"qa_session_id": "a\nb"}},
        {"cluster": {"qa_session_id": "-x"}},
        {},
    ],
    ids=str,
)
def test_nothing_else_is_set_by_hand(readied: World, patch: dict[str, Any]) -> None:
    assert refused_patch(readied, **patch)["code"] == "invalid_arguments"


@pytest.mark.req("AOP-048")
def test_a_patch_must_say_which_version_it_is_for(readied: World) -> None:
    error = readied.refusal("feature.state_patch", feature_id="one", patch={"role_status": {"qa": "done"}})
    assert error["code"] == "invalid_arguments"
    stale = readied.refusal(
        "feature.state_patch", feature_id="one", expected_version=1, patch={"role_status": {"qa": "done"}}
    )
    assert stale["code"] == "version_conflict"


@pytest.mark.parametrize("back_to", ["building", "qa"])
def test_a_person_sends_a_feature_back_and_it_can_be_patched_again(readied: World, back_to: str) -> None:
    patch_state(readied, status=back_to, status_reason="The name is wrong.")
    readied.patch(diff=PATCH.replace("-two", "-TWO").replace("+TWO", "+2"))
    assert (readied.root / ".worktrees/one/src/a.txt").read_text() == "one\n2\nthree\n"


@pytest.mark.hostile("T14")
@pytest.mark.parametrize("through", ["qa", "blocked"])
def test_what_was_approved_before_a_feature_was_sent_back_opens_nothing(readied: World, through: str) -> None:
    token = readied.approval()
    patch_state(readied, status=through, status_reason="I want to look again.")
    if through == "blocked":
        patch_state(readied, status="qa", status_reason="I looked.")
    assert readied.ok("gates.run", feature_id="one", mode="full")["reused"] is True
    assert state_of(readied).status == "ready_to_merge"

    error = readied.refusal("feature.ready_to_merge", feature_id="one", user_approval_token=token)

    assert (error["code"], error["details"]["reasons"]) == ("approval_invalid", ["the feature was sent back after it"])
    shown = readied.ok("report.feature_summary", feature_id="one")["approvals"]
    assert shown[0]["void_because"] == ["the feature was sent back after it"]
    assert readied.ok("feature.ready_to_merge", feature_id="one", user_approval_token=readied.approval())


def test_only_a_person_or_the_system_gives_a_feature_up(world: World) -> None:
    world.init()
    wish: dict[str, Any] = {"expected_version": 1, "patch": {"status": "failed", "status_reason": "No use."}}
    error = world.call_as_worker("feature.state_patch", Role.ORCHESTRATOR, "one", feature_id="one", **wish).error
    assert error is not None
    assert error["code"] == "forbidden_tool_for_role"
    assert world.ok("feature.state_patch", feature_id="one", **wish)["status"] == "failed"


@pytest.mark.req("AOP-158")
def test_workers_patch_no_state_unless_the_policy_says_so(make_world: MakeWorld) -> None:
    wish: dict[str, Any] = {"expected_version": 1, "patch": {"role_status": {"qa": "done"}}}
    plain_world = make_world()
    plain_world.init()
    error = plain_world.call_as_worker("feature.state_patch", Role.QA, "one", feature_id="one", **wish).error
    assert error is not None
    assert error["code"] == "forbidden_tool_for_role"
    open_world = make_world(policy={"rbac": {"qa": ["feature.state_patch", "feature.approve", "plan.submit"]}})
    open_world.init()
    qa = open_world.call_as_worker("feature.state_patch", Role.QA, "one", feature_id="one", **wish)
    assert qa.ok, qa.error
    for tool in ("feature.approve", "plan.submit"):
        assert open_world.refusal(tool, role=Role.QA, feature_id="one")["code"] == "forbidden_tool_for_role"


# --- feature.log_append --------------------------------------------------------------------------


def decisions(world: World) -> list[str]:
    return (world.root / "agentic/features/one/decisions.md").read_text().split("\n")[2:-1]


@pytest.mark.req("AOP-165")
def test_a_note_is_kept_with_who_wrote_it_and_when(world: World) -> None:
    world.init()
    answer = world.call_as_worker("feature.log_append", Role.QA, "one", feature_id="one", note="Looks  good\nto me.")
    at = answer.data["at"]
    assert plain(answer.data) == {
        "feature_id": "one",
        "seq": 2,
        "at": at,
        "actor": "qa:one",
        "note": "Looks good to me.",
    }
    assert decisions(world)[-1] == f"- {at} **qa:one** Looks good to me. (#2)"
    assert state_of(world).version == 1


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("fine\n- 2026-01-01 **person:ada** Approved", "fine - 2026-01-01 \\*\\*person:ada\\*\\* Approved"),
        ("fine\u2028# Decisions on two", "fine \\# Decisions on two"),
        ("a\r\n\x0b\x0c\x85b", "a b"),
        ("<h1>x</h1><br>y", "\\<h1\\>x\\</h1\\>\\<br\\>y"),
        ("`code` [link](https://x.example)", "\\`code\\` \\[link\\](https://x.example)"),
        ("\u202egnihton", "\\\\u{202e}gnihton"),
        ("{tree} {0} %s", "{tree} {0} %s"),
    ],
    ids=ascii,
)
def test_no_note_looks_like_another_entry(world: World, note: str, shown: str) -> None:
    world.init()
    world.ok("feature.log_append", feature_id="one", note=note)
    lines = decisions(world)
    assert len(lines) == 2
    assert lines[-1].endswith(f" **person:ada** {shown} (#2)")


def test_a_secret_in_a_note_is_kept_nowhere(world: World) -> None:
    world.init()
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    assert secret not in world.ok("feature.log_append", feature_id="one", note=f"use {secret}")["note"]
    assert not any(secret.encode() in path.read_bytes() for path in (world.root / ".aop").glob("record.db*"))
    assert secret not in "".join(decisions(world))


@pytest.mark.parametrize("note", ["", " \n\t", "x" * 4001])
def test_a_note_that_is_empty_or_far_too_long_is_refused(readied: World, note: str) -> None:
    assert readied.refusal("feature.log_append", feature_id="one", note=note)["code"] == "invalid_arguments"


def test_the_file_tells_the_newest_notes_and_does_not_grow_without_end(world: World) -> None:
    world.init()
    for number in range(55):
        world.ok("feature.log_append", feature_id="one", note=f"Note {number}.")
    lines = decisions(world)
    assert lines[:2] == ["Older ones: `aop logs --feature one`.", ""]
    assert [line.split("** ")[1] for line in lines[2:]] == [f"Note {n}. (#{n + 2})" for n in range(5, 55)]


@pytest.mark.parametrize("edit", [lambda path: path.write_text("Mine.\n"), lambda path: path.unlink()])
def test_a_file_of_decisions_that_somebody_touched_is_written_again(world: World, edit: Callable[..., object]) -> None:
    world.init()
    edit(world.root / "agentic/features/one/decisions.md")
    answer = world.call("feature.log_append", feature_id="one", note="Here.")
    assert answer.ok
    assert len(decisions(world)) == 2
    for place in answer.evidence.get("set_aside", []):
        assert (world.root / place).read_text() == "Mine.\n"
