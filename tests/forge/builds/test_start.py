"""Start of a cycle: branch, worktree, feature and cycle together, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.ids import CommitId, ObjectId
from aop.forge.projects.documents import ForgeBuild, ForgeProject, ScoutRun
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState, Status
from tests.forge.broker.shelves import pin, shelve
from tests.forge.builds.cycles import BRANCH, begin, cycle_of, refs
from tests.world import World, git


@pytest.mark.req("FORGE-192", "FORGE-193", "FORGE-194", "FORGE-214")
def test_a_build_begins_with_a_branch_a_worktree_a_feature_and_a_cycle(world: World) -> None:
    head = git(world.root, "rev-parse", "HEAD").strip()
    facts = begin(world)
    assert refs(world.root) == {"refs/heads/main": head, f"refs/heads/{BRANCH}": head}
    assert git(world.root / facts["worktree_path"], "symbolic-ref", "HEAD").strip() == f"refs/heads/{BRANCH}"
    assert (world.root / facts["worktree_path"] / "src/a.txt").read_text() == "one\ntwo\nthree\n"
    with world.app.record.read() as view:
        state, project = view.get(FeatureState, "shop-b1"), view.get(ForgeProject, "shop")
        build = view.get(ForgeBuild, "shop-b1")
        kinds = [entry.event.kind for entry in view.journal(feature_id=state.feature_id)] if state else []
    assert state is not None
    assert project is not None
    assert build is not None
    assert (state.status, state.branch, state.base_commit) == (Status.BUILDING, BRANCH, head)
    assert kinds == ["feature_initialised", "build_began"]
    assert (project.status, project.build_count, build.batch) == ("building", 1, 1)
    cycle = cycle_of(world)
    assert (cycle.status, cycle.crew, cycle.branch, cycle.baseline_sha, cycle.head) == (
        "active",
        "solo",
        BRANCH,
        head,
        head,
    )
    assert (cycle.phases[0], cycle.current.number, cycle.current.start_commit) == ("Genesis", 0, head)
    assert (facts["batch"], facts["sha256"], facts["phase"]) == (1, build.sha256, 0)
    world.ok("evidence.verify")


def test_a_build_that_was_pinned_and_not_begun_is_the_one_that_begins(world: World) -> None:
    shelve(world, "shop")
    pin(world, "shop")
    assert world.ok("forge.build_begin", project_id="shop")["build_id"] == "shop-b1"


def test_a_named_build_begins_with_the_batch_that_it_pinned(world: World) -> None:
    shelve(world, "shop")
    pin(world, "shop")
    pin(world, "shop")
    assert world.ok("forge.build_begin", project_id="shop", build_id="shop-b1")["build_id"] == "shop-b1"


@pytest.mark.req("FORGE-213")
def test_a_second_active_build_of_a_project_is_refused_and_another_project_is_free(world: World) -> None:
    begin(world)
    pin(world, "shop")
    for build in (None, "shop-b1", "shop-b2"):
        assert world.refusal("forge.build_begin", project_id="shop", build_id=build)["code"] == "build_active"
    assert begin(world, "library")["build_id"] == "library-b1"


@pytest.mark.req("FORGE-193")
@pytest.mark.parametrize("at", ["HEAD", "elsewhere"])
def test_a_branch_that_is_there_stops_the_start_wherever_it_is(world: World, at: str) -> None:
    shelve(world, "shop")
    if at == "elsewhere":
        at = git(world.root, "commit-tree", "-m", "Other", "HEAD^{tree}").strip()
    git(world.root, "branch", BRANCH, at)
    assert world.refusal("forge.build_begin", project_id="shop")["code"] == "branch_exists"


def test_a_feature_of_the_same_name_stops_the_start(world: World) -> None:
    shelve(world, "shop")
    world.init("shop-b1")
    assert world.refusal("forge.build_begin", project_id="shop")["code"] == "feature_exists"


def test_a_commit_with_a_folder_of_contracts_stops_the_start(world: World) -> None:
    shelve(world, "shop")
    (world.root / "Forge").mkdir()
    (world.root / "Forge/notes.md").write_text("Mine\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "A forge")
    assert world.refusal("forge.build_begin", project_id="shop")["code"] == "forge_folder_tracked"


def test_without_contracts_or_for_another_project_nothing_begins(world: World) -> None:
    world.ok("forge.project_new", name="empty")
    assert world.refusal("forge.build_begin", project_id="empty")["code"] == "no_contracts"
    assert world.refusal("forge.build_begin", project_id="nobody")["code"] == "unknown_project"
    shelve(world, "shop")
    shelve(world, "library")
    pin(world, "library")
    wrong = world.refusal("forge.build_begin", project_id="shop", build_id="library-b1")
    assert (wrong["code"], wrong["message"]) == (
        "invalid_arguments",
        "The build `library-b1` belongs to the project `library`.",
    )
    assert world.refusal("forge.build_begin", project_id="shop", build_id="shop-b7")["code"] == "unknown_build"


def scanned(world: World, commit: str) -> None:
    """Record a scan of a commit, as `forge.scan` does."""
    with world.app.record.write() as tx:
        project = tx.get(ForgeProject, "shop")
        assert project is not None
        number = int(project.scan_run.rpartition("-s")[2] or 0) + 1
        now = project.updated_at
        run = ScoutRun(
            version=1,
            run_id=f"shop-s{number}",
            project_id="shop",
            head_sha=CommitId(ObjectId(commit)),
            created_at=now,
            updated_at=now,
        )
        tx.put(run, run.run_id)
        tx.put(revise(project, scan_run=run.run_id, flow="scout"), "shop")


@pytest.mark.req("FORGE-193")
def test_the_baseline_is_the_commit_of_the_scan_which_the_build_locks(world: World) -> None:
    shelve(world, "shop")
    first = git(world.root, "rev-parse", "HEAD").strip()
    scanned(world, first)
    (world.root / "later.txt").write_text("later\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Later")
    facts = world.ok("forge.build_begin", project_id="shop")
    assert (facts["baseline_sha"], facts["scan_run"]) == (first, "shop-s1")
    assert not (world.root / facts["worktree_path"] / "later.txt").exists()
    with world.app.record.read() as view:
        run = view.get(ScoutRun, "shop-s1")
    assert run is not None
    assert run.locked_by == "shop-b1"


@pytest.mark.req("FORGE-191")
@pytest.mark.parametrize("tool", ["feature.approve", "feature.ready_to_merge"])
def test_a_build_is_neither_approved_nor_merged(world: World, tool: str) -> None:
    facts = begin(world)
    more = {"tree": facts["tree"], "base": facts["baseline_sha"]} if tool == "feature.approve" else {}
    assert world.refusal(tool, feature_id="shop-b1", **more)["code"] == "merge_never"


def test_what_replaces_or_removes_the_work_of_a_feature_is_refused_for_a_build(world: World) -> None:
    begin(world)
    name: dict[str, Any] = {"feature_id": "shop-b1"}
    assert world.refusal("feature.delete", **name, dry_run=False, force=True)["code"] == "not_for_a_build"
    assert world.refusal("feature.reject", **name, text="No")["code"] == "not_for_a_build"
    assert world.refusal("feature.request_changes", **name, text="No")["code"] == "not_for_a_build"
    patch = {"status": "failed"}
    refused = world.refusal("feature.state_patch", **name, patch=patch, expected_version=1)
    assert refused["code"] == "invalid_status_transition"


def test_gates_that_pass_leave_a_build_in_its_status(world: World) -> None:
    begin(world)
    world.ok("gates.run", feature_id="shop-b1", mode="fast")
    with world.app.record.read() as view:
        state = view.get(FeatureState, "shop-b1")
    assert state is not None
    assert (state.status, state.gates["fast"]) == (Status.BUILDING, "pass")
