"""A person's objections to a feature: changes that they request, and an approach that they reject."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.roles import Role
from tests.world import PATCH, World, git, plan_for

SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")
SECRET = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"


def request(world: World, **about: Any) -> Any:
    return world.ok("feature.request_changes", feature_id="one", text="Write it in words.", **about)


def open_texts(world: World) -> list[str]:
    found: list[dict[str, Any]] = world.ok("report.feature_summary", feature_id="one")["requests"]
    return [each["text"] for each in found]


def events(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.kind for entry in view.journal()]


def test_a_request_takes_a_ready_feature_back_to_building_and_its_approval_is_void(world: World) -> None:
    world.ready("one")
    token = world.approval("one")
    asked = request(world, file="src/a.txt", lines="2-3")
    assert {name: asked[name] for name in ("status", "was", "open_questions")} == {
        "status": "building",
        "was": "ready_to_merge",
        "open_questions": [],
    }
    assert {
        name: asked["request"][name] for name in ("number", "kind", "text", "file", "lines", "quoted", "given")
    } == {
        "number": 1,
        "kind": "changes",
        "text": "Write it in words.",
        "file": "src/a.txt",
        "lines": "2-3",
        "quoted": "TWO\nthree",
        "given": False,
    }
    refused = world.call("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    assert (refused.error or {})["code"] == "invalid_status_transition"
    approvals = world.ok("report.feature_summary", feature_id="one")["approvals"]
    assert [each["void_because"] for each in approvals] == [["the feature was sent back after it"]]


def test_gates_lead_a_feature_no_further_while_a_request_is_open(world: World) -> None:
    world.ready("one")
    request(world)
    assert world.ok("gates.run", feature_id="one", mode="fast")["status"] == "building"
    world.patch("one", SECOND)
    assert open_texts(world) == []
    assert [world.ok("gates.run", feature_id="one", mode=mode)["status"] for mode in ("fast", "full")] == [
        "qa",
        "ready_to_merge",
    ]


def test_several_requests_are_open_at_once_and_every_worker_reads_them(world: World) -> None:
    world.ready("one")
    request(world)
    world.ok("feature.request_changes", feature_id="one", text="And shorter.", file="src/a.txt")
    assert open_texts(world) == ["Write it in words.", "And shorter."]
    told = world.call_as_worker("feature.get_context", Role.BUILDER, "one", feature_id="one").data["requests"]
    assert [(each["number"], each["text"], each["file"]) for each in told] == [
        (1, "Write it in words.", ""),
        (2, "And shorter.", "src/a.txt"),
    ]


def test_a_patch_of_a_turn_that_began_before_the_request_does_not_close_it(world: World) -> None:
    world.plan("one")
    world.app.gateway.lead()
    request(world)
    world.patch("one")
    assert open_texts(world) == ["Write it in words."]
    handed = world.ok("feature.hand_requests", role=Role.SYSTEM, feature_id="one", worker="builder")
    assert [each["text"] for each in handed["requests"]] == ["Write it in words."]
    world.patch("one", SECOND)
    assert open_texts(world) == []
    assert [kind for kind in events(world) if "request" in kind] == [
        "changes_requested",
        "change_requests_given",
        "change_requests_closed",
    ]


def test_a_rejected_feature_is_planned_again_from_its_base_and_its_tree_stays_reachable(world: World) -> None:
    world.ready("one")
    request(world)
    rejected = world.ok("feature.reject", feature_id="one", text="A number is better.")
    assert (rejected["status"], rejected["was"]) == ("planning", "building")
    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\ntwo\nthree\n"
    assert git(world.root, "show", f"refs/aop/undone/one/{rejected['before']}:src/a.txt") == "one\nTWO\nthree\n"
    # The request was about the approach that is gone.
    assert open_texts(world) == ["A number is better."]
    revised = plan_for("one", plan_version=2, revision_of=1, summary="Write a number")
    updated = world.ok("plan.update", feature_id="one", plan_json=revised, expected_plan_version=1)
    assert (updated["status"], open_texts(world)) == ("building", [])
    decisions = (world.root / "agentic/features/one/decisions.md").read_text()
    assert f"A person rejected the approach of tree `{rejected['before']}`: A number is better." in decisions


def test_a_plan_of_a_turn_that_began_before_the_rejection_does_not_answer_it(world: World) -> None:
    world.plan("one")
    world.app.gateway.lead()
    world.ok("feature.reject", feature_id="one", text="No.")
    for number in (2, 3):
        revised = plan_for("one", plan_version=number, revision_of=number - 1)
        updated = world.ok("plan.update", feature_id="one", plan_json=revised, expected_plan_version=number - 1)
        assert updated["status"] == {2: "planning", 3: "building"}[number]
        if number == 2:
            world.ok("feature.hand_requests", role=Role.SYSTEM, feature_id="one", worker="planner")


def test_the_rejected_tree_comes_back_by_undo(world: World) -> None:
    world.ready("one")
    before = world.ok("feature.reject", feature_id="one", text="No.")["before"]
    revised = plan_for("one", plan_version=2, revision_of=1)
    world.ok("plan.update", feature_id="one", plan_json=revised, expected_plan_version=1)
    assert world.ok("feature.undo", feature_id="one")["tree"] == before


@pytest.mark.parametrize(
    ("about", "code", "says"),
    [
        ({"text": " \n "}, "invalid_arguments", "only white space"),
        ({"text": "x" * 16_001}, "invalid_arguments", "text"),
        ({"file": "src/aa.txt"}, "file_not_found", "has no file `src/aa.txt`. Did you mean `src/a.txt`"),
        ({"file": "nothing/like/this"}, "file_not_found", "has no file `nothing/like/this`."),
        ({"file": "../etc/passwd"}, "path_out_of_bounds", ".."),
        ({"file": "src"}, "file_not_found", "has no file `src`"),
        (
            {"file": "src/a.txt", "lines": "3-9"},
            "invalid_arguments",
            "`src/a.txt` has 3 lines; there are no lines 3-9.",
        ),
        ({"file": "src/a.txt", "lines": "3-2"}, "invalid_arguments", "there are no lines 3-2"),
        ({"file": "src/a.txt", "lines": "0"}, "invalid_arguments", "lines"),
        ({"lines": "1"}, "invalid_arguments", "The lines are given without a file."),
    ],
)
def test_a_bad_request_is_refused_and_changes_nothing(world: World, about: Any, code: str, says: str) -> None:
    world.ready("one")
    refused = world.refusal("feature.request_changes", feature_id="one", **{"text": "Better.", **about})
    assert refused["code"] == code
    assert says in refused["message"]


@pytest.mark.parametrize("tool", ["feature.request_changes", "feature.reject"])
def test_an_objection_needs_a_feature_with_a_plan_that_is_not_finished(world: World, tool: str) -> None:
    assert world.refusal(tool, feature_id="nobody", text="No.")["code"] == "unknown_feature"
    world.init("one")
    assert world.refusal(tool, feature_id="one", text="No.")["code"] == "invalid_status_transition"
    world.ready("two")
    world.ok("feature.ready_to_merge", feature_id="two", user_approval_token=world.approval("two"))
    assert world.refusal(tool, feature_id="two", text="No.")["code"] == "invalid_status_transition"


@pytest.mark.parametrize("tool", ["feature.request_changes", "feature.reject", "feature.hand_requests"])
@pytest.mark.parametrize("role", [Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA])
def test_no_agent_objects_for_a_person(world: World, tool: str, role: Role) -> None:
    world.ready("one")
    given = {"worker": "builder"} if tool == "feature.hand_requests" else {"text": "No."}
    answer = world.call_as_worker(tool, role, "one", feature_id="one", **given)
    assert (answer.error or {})["code"] == "forbidden_tool_for_role"


def test_a_secret_in_the_text_or_in_the_quoted_lines_is_masked_everywhere(world: World) -> None:
    (world.root / "src/key.txt").write_text(f"token = {SECRET}\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "A key")
    world.ready("one")
    said = world.ok("feature.request_changes", feature_id="one", text=f"Use {SECRET}.", file="src/key.txt", lines="1")
    assert SECRET not in str(said)
    assert said["request"]["quoted"].startswith("token = ")
    assert SECRET.encode() not in (world.root / ".aop/record.db").read_bytes()
    assert SECRET not in str(world.ok("feature.get_context", feature_id="one"))


def test_a_blocked_feature_continues_at_the_request(world: World) -> None:
    world.ready("one")
    version = world.ok("feature.state_get", feature_id="one")["version"]
    patch = {"status": "blocked", "status_reason": "It cannot continue."}
    world.ok("feature.state_patch", feature_id="one", expected_version=version, patch=patch)
    asked = request(world)
    assert (asked["was"], asked["status"]) == ("blocked", "building")


def test_a_deleted_feature_leaves_no_request_to_a_new_one_of_its_name(world: World) -> None:
    world.ready("one")
    request(world)
    world.ok("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True, force=True)
    world.ready("one")
    assert open_texts(world) == []
