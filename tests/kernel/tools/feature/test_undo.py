"""Going back to an earlier tree of a feature."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.runs import Pause, WorkRequest
from tests.world import PATCH, World, git, plan_for, run_aop

SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")


def trees(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.ok("feature.trees", feature_id="one")["trees"]
    return found


@pytest.fixture
def twice(world: World) -> World:
    """A feature that was patched twice and is ready to merge."""
    world.plan("one")
    world.patch("one")
    world.patch("one", SECOND)
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    return world


def test_every_tree_is_listed_with_who_made_it_and_how(twice: World) -> None:
    assert [(row["number"], row["event"], row["actor"], row["files"], row["current"]) for row in trees(twice)] == [
        (0, "feature_initialised", "person:ada", 0, False),
        (1, "patch_applied", "person:ada", 1, False),
        (2, "patch_applied", "person:ada", 1, True),
    ]


def test_an_earlier_tree_is_the_feature_again_its_gates_are_stale_and_its_approval_is_void(twice: World) -> None:
    token, checkout = twice.approval("one"), git(twice.root, "status", "--porcelain")
    undone = twice.ok("feature.undo", feature_id="one", to="1")
    assert (undone["status"], undone["tree"], undone["before"]) == (
        "building",
        trees(twice)[1]["tree"],
        trees(twice)[2]["tree"],
    )
    assert (twice.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"
    front = twice.ok("feature.state_get", feature_id="one")["front_matter"]
    assert {mode: front["gates"][mode] for mode in ("fast", "full")} == {"fast": "na", "full": "na"}
    assert twice.call("feature.ready_to_merge", feature_id="one", user_approval_token=token).ok is False
    assert git(twice.root, "show", f"refs/aop/undone/one/{undone['before']}:src/a.txt") == "one\n2\nthree\n"
    assert git(twice.root, "status", "--porcelain") == checkout
    assert [row["event"] for row in trees(twice)][-1] == "tree_undone"


def test_it_goes_forward_again_by_the_id_of_the_tree_that_was_left(twice: World) -> None:
    left = trees(twice)[2]["tree"]
    twice.ok("feature.undo", feature_id="one", to="0")
    assert (twice.root / ".worktrees/one/src/a.txt").read_text() == "one\ntwo\nthree\n"
    assert twice.ok("feature.undo", feature_id="one", to=left[:12])["tree"] == left
    assert (twice.root / ".worktrees/one/src/a.txt").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(("to", "says"), [("7", "names no tree"), ("2", "already"), ("f" * 40, "names no tree")])
def test_what_is_no_earlier_tree_is_refused(twice: World, to: str, says: str) -> None:
    refused = twice.refusal("feature.undo", feature_id="one", to=to)
    assert refused["code"] == "invalid_arguments"
    assert says in refused["message"]


def test_a_tree_that_the_plan_does_not_allow_any_more_is_refused(twice: World) -> None:
    narrower = plan_for("one", plan_version=2, revision_of=1, files={"create": [], "modify": [], "delete": []})
    twice.ok("feature.undo", feature_id="one", to="0")
    twice.ok("plan.update", feature_id="one", plan_json=narrower, expected_plan_version=1)
    assert twice.refusal("feature.undo", feature_id="one", to="1")["code"] == "unplanned_file"


def test_a_merged_feature_stays_what_it_is(twice: World) -> None:
    twice.ok("feature.ready_to_merge", feature_id="one", user_approval_token=twice.approval("one"))
    assert twice.refusal("feature.undo", feature_id="one", to="1")["code"] == "invalid_status_transition"


def text_of(world: World) -> str:
    return (world.root / ".worktrees/one/src/a.txt").read_text().split("\n")[1]


def test_undo_twice_goes_back_two_steps_and_redo_twice_forward_again(twice: World) -> None:
    seen = []
    for tool in ("feature.undo", "feature.undo", "feature.redo", "feature.redo"):
        twice.ok(tool, feature_id="one")
        seen.append(text_of(twice))
    assert seen == ["TWO", "two", "TWO", "2"]
    assert [row["event"] for row in trees(twice)][3:] == ["tree_undone", "tree_undone", "tree_redone", "tree_redone"]


def test_a_new_patch_ends_what_a_redo_could_bring_back(twice: World) -> None:
    twice.ok("feature.undo", feature_id="one")
    listed = twice.ok("feature.trees", feature_id="one")
    assert (listed["previous"], listed["next"]) == (listed["trees"][0]["tree"], listed["trees"][2]["tree"])
    twice.patch("one", SECOND.replace("+2", "+zwei"))
    assert twice.refusal("feature.redo", feature_id="one")["message"] == "Nothing was undone since the newest change."
    twice.ok("feature.undo", feature_id="one")
    assert text_of(twice) == "TWO"


def test_before_the_first_tree_there_is_none(twice: World) -> None:
    twice.ok("feature.undo", feature_id="one", to="0")
    assert twice.refusal("feature.undo", feature_id="one")["message"] == "The feature has no earlier tree."


def test_an_undone_feature_is_paused_and_wanted_again(twice: World) -> None:
    twice.ok("feature.undo", feature_id="one")
    with twice.app.record.read() as view:
        assert view.get(Pause, "one") is not None
        wanted = view.get(WorkRequest, "one")
    assert (wanted is not None and wanted.again) is True


@pytest.mark.parametrize("tool", ["feature.undo", "feature.redo"])
def test_a_worker_moves_to_no_other_tree(twice: World, tool: str) -> None:
    answer = twice.call_as_worker(tool, Role.ORCHESTRATOR, "one", feature_id="one")
    assert (answer.error or {})["code"] == "forbidden_tool_for_role"


def test_the_command_shows_the_trees_and_goes_one_back(twice: World) -> None:
    listed = run_aop(twice.root, "undo", "one", "--json")
    assert (listed.code, len(listed.json["data"]["trees"])) == (3, 3)
    done = run_aop(twice.root, "undo", "one", "--yes")
    assert (done.code, (twice.root / ".worktrees/one/src/a.txt").read_text()) == (0, "one\nTWO\nthree\n")
    assert "patch_applied by person:ada" in done.err
    assert done.err.endswith("Continue with: aop resume one\n")
    redone = run_aop(twice.root, "redo", "one", "--yes")
    assert (redone.code, text_of(twice)) == (0, "2")
    again = run_aop(twice.root, "redo", "one", "--yes", "--json")
    assert (again.code, again.json["error"]["code"]) == (2, "invalid_arguments")
    to_base = run_aop(twice.root, "undo", "one", "--to", "0", "--yes", "--json")
    assert (to_base.code, to_base.json["data"]["status"]) == (0, "building")
    assert run_aop(twice.root, "undo", "nobody", "--yes").code == 1
