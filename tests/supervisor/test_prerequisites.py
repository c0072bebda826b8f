"""What two features would both make: a person's yes makes it a feature of its own, on which both begin anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.supervisor.workers import PatchProposal, PlanSubmission
from aop.testing.memory_engine import Memory
from tests.kernel.tools.worlds import configured, patch_of
from tests.supervisor.worlds import Office, Watched, office
from tests.world import World, files, git, plan_for

ONE, TWO = FeatureId("one"), FeatureId("two")
SHARED = FeatureId("shared-new-84473a08")
NEW = "src/new.txt"


def planned(name: str, *paths: str, **changes: Any) -> tuple[Role, PlanSubmission]:
    return Role.PLANNER, PlanSubmission(plan=plan_for(name, files=files(create=paths, **changes)))


def built(path: str) -> tuple[Role, PatchProposal]:
    return Role.BUILDER, PatchProposal(unified_diff=patch_of(path, "x"))


def workers() -> dict[FeatureId, Watched]:
    return {
        ONE: Watched(planned("one", "src/one.txt"), built("src/one.txt")),
        TWO: Watched(planned("two", NEW, "src/two.txt"), planned("two", "src/two.txt"), built("src/two.txt")),
        SHARED: Watched(planned(SHARED, NEW), built(NEW)),
    }


def colliding(root: Path) -> World:
    """Have a feature with an accepted plan and a first patch, whose file the next one wants to make as well."""
    world = configured(root, policy={"supervisor": {"collision_strategy": "ask"}})
    (world.root / "agentic/features/two").mkdir(parents=True)
    (world.root / "agentic/features/two/spec.md").write_text("# Two\n\nIt must use the new file.\n")
    world.plan("one", files=files(create=(NEW,)))
    world.patch("one", patch_of(NEW, "y"))
    return world


def asked(at_work: Office) -> str:
    at_work.supervisor.submit([TWO])
    entry = at_work.settle()[TWO]
    assert entry.does == "asks"
    return entry.topic


def merge(world: World, name: str) -> None:
    token = world.approval(name)
    world.ok("feature.ready_to_merge", feature_id=name, user_approval_token=token)


def row(world: World, name: str) -> tuple[str, list[str]]:
    rows = {each["feature_id"]: each for each in world.ok("report.dashboard")["features"]}
    return rows[name]["status"], list(rows[name]["blocked_by"])


@pytest.mark.req("AOP-264")
def test_a_yes_makes_the_shared_part_a_feature_and_both_begin_anew_when_it_is_merged(tmp_path: Path) -> None:
    world, memory, all_workers = colliding(tmp_path / "repo"), Memory(), workers()
    with office(world, all_workers, memory=memory) as at_work:
        question = asked(at_work)
        [shown] = world.ok("inbox.list")["questions"]
        assert f"`yes` makes that a separate feature, `{SHARED}`" in shown["text"]
        before = world.ok("repo.status", feature_id="one")["tree"]
        world.ok("inbox.answer", feature_id="two", question_id=question, answer="yes")
        assert [row(world, name) for name in ("one", "two")] == [("blocked", [SHARED])] * 2
    # Another process goes on, as after a kill: the yes is in the record, and so is what it brought about.
    with office(world, all_workers, memory=memory) as at_work:
        at_work.supervisor.submit([ONE, TWO])
        entries = at_work.settle()
        assert {name: entry.does for name, entry in entries.items()} == {
            ONE: "waits",
            TWO: "waits",
            SHARED: "ended",
        }
        context = all_workers[SHARED].given[0].context_bundle
        assert [each["text"] for each in context["obligations"]["rows"]] == [f"`{NEW}`"]
        assert "It must use the new file." in context["spec"]
        merge(world, SHARED)
        entries = at_work.settle()
    assert [entries[name].outcome for name in (ONE, TWO)] == [{"status": "ready_to_merge", "error": None}] * 2
    folder = world.root / ".worktrees"
    assert {name: (folder / name / NEW).read_text() for name in ("one", "two")} == {"one": "x\n", "two": "x\n"}
    assert git(world.root, "for-each-ref", "--format=%(objectname)", "refs/aop/undone/one/").split() == [before]
    for name in ("one", "two"):
        merge(world, name)
    assert git(world.root, "ls-tree", "--name-only", "main", "src/").split() == [
        *("src/a.txt", "src/b.txt", NEW, "src/one.txt", "src/two.txt")
    ]
    world.close()


def test_until_then_nobody_lets_one_of_them_go_on_and_a_deleted_prerequisite_is_waited_for_no_more(
    tmp_path: Path,
) -> None:
    world = colliding(tmp_path / "repo")
    with office(world, workers()) as at_work:
        question = asked(at_work)
        world.ok("inbox.answer", feature_id="two", question_id=question, answer="yes")
        at_work.settle()
        assert row(world, SHARED)[0] == "ready_to_merge"
        patch = {"status": "building", "status_reason": "Mine."}
        seen = world.ok("feature.state_get", feature_id="one")
        assert seen["front_matter"]["waits_for"] == [SHARED]
        given = {"feature_id": "one", "expected_version": seen["version"], "patch": patch}
        assert world.refusal("feature.state_patch", **given)["details"]["waits_for"] == [SHARED]
        early = world.refusal("feature.begin_anew", role=Role.SYSTEM, feature_id="one")
        assert early["code"] == "invalid_status_transition"
        assert world.ok("feature.retry", feature_id="one")["status"] == "blocked"
        world.ok("feature.delete", feature_id=SHARED, dry_run=False, worktree=True, branch=True, force=True)
        entries = at_work.settle()
    assert {name: entries[name].outcome["status"] for name in (ONE, TWO)} == dict.fromkeys((ONE, TWO), "ready_to_merge")
    world.close()


def test_a_feature_that_is_ready_begins_anew_too_and_one_that_is_merged_does_not(tmp_path: Path) -> None:
    world = colliding(tmp_path / "repo")
    with office(world, workers()) as at_work:
        question = asked(at_work)
        for mode in ("fast", "full"):
            world.ok("gates.run", feature_id="one", mode=mode)
        world.ok("inbox.answer", feature_id="two", question_id=question, answer="yes")
        entries = at_work.settle()
        assert [entries[name].does for name in (ONE, TWO, SHARED)] == ["waits", "waits", "ended"]
    world.close()

    world = colliding(tmp_path / "merged")
    with office(world, workers()) as at_work:
        question = asked(at_work)
        for mode in ("fast", "full"):
            world.ok("gates.run", feature_id="one", mode=mode)
        merge(world, "one")
        error = world.refusal("inbox.answer", feature_id="two", question_id=question, answer="yes")
        assert (error["code"], error["details"]["feature_id"]) == ("invalid_status_transition", "one")
        world.ok("inbox.answer", feature_id="two", question_id=question, answer="Build on `one`.")
        entries = at_work.settle()
    assert entries[TWO].outcome == {"status": "ready_to_merge", "error": None}
    world.close()
