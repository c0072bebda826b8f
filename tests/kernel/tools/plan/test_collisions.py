"""collisions.scan: where plans meet, who is told of it, and which of them would conflict in truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.merges.trial_merges import FeatureTip, TriedMerge, try_merges
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from tests.kernel.tools.worlds import POLICY, configured, force, patch_of, plain, state_of, yaml
from tests.world import PATCH, World, files, git, plan_for

NO_CONTRACTS = {"openapi": "none", "events": "none", "db": "none"}


def put_plan(world: World, feature: str, **changes: Any) -> None:
    """Let a feature have an accepted plan that no other was compared with."""
    world.init(feature)
    plan = msgspec.convert(plan_for(feature, allowed_areas=["**"], **changes), Plan)
    with world.app.record.write() as tx:
        tx.put(AcceptedPlan(version=1, plan=plan), feature)


def holder(feature: str, planned: str) -> dict[str, Any]:
    return {"feature_id": feature, "planned": planned, "plan_version": 1, "queued": False}


def places(world: World) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return what a scan finds, in short."""
    found = plain(world.ok("collisions.scan"))["collisions"]
    return [
        (each["kind"], each["identifier"], [(who["feature_id"], who["planned"]) for who in each["holders"]])
        for each in found
    ]


@pytest.mark.req("AOP-201", "AOP-212")
def test_plans_that_keep_apart_share_no_place(world: World) -> None:
    world.plan("one")
    world.plan("two", files=files(modify=("src/b.txt",)))
    world.init("three")

    scanned = plain(world.ok("collisions.scan", role=Role.PLANNER))

    assert (scanned["compared_plans"], scanned["collisions"]) == (2, [])


@pytest.mark.req("AOP-201", "AOP-204", "AOP-212")
def test_a_place_is_named_with_all_who_reach_it_and_with_what_to_do(world: World) -> None:
    put_plan(world, "one", files=files(modify=("src/a.txt",)))
    put_plan(world, "two", files=files(modify=("SRC/A.TXT",)))
    put_plan(world, "three", files=files(create=("src/",)))

    first, second = (plain(world.ok("collisions.scan")) for _ in range(2))

    assert first == second
    (place,) = first["collisions"]
    fingerprint = place.pop("collision_fingerprint")
    assert place == {
        "kind": "file",
        "identifier": "src/a.txt",
        "holders": [holder("one", "src/a.txt"), holder("three", "src/"), holder("two", "SRC/A.TXT")],
        "recommended_actions": [
            {
                "action": "revise_plan",
                "message": "Revise all of these plans but one, so that they leave `src/a.txt` alone.",
            },
            {
                "action": "shared_prerequisite_feature",
                "message": "Put the common work on `src/a.txt` into a separate feature, and merge that first.",
            },
        ],
    }
    assert len(fingerprint) == len(first["collision_fingerprint"]) == 64
    force(world, "two", status=Status.FAILED)
    fewer = plain(world.ok("collisions.scan"))
    assert [who["feature_id"] for who in fewer["collisions"][0]["holders"]] == ["one", "three"]
    assert fewer["collisions"][0]["collision_fingerprint"] != fingerprint


@pytest.mark.req("AOP-205")
def test_an_area_that_the_policy_made_exclusive_afterwards_is_found(world: World) -> None:
    world.plan("one")
    world.plan("two", files=files(modify=("src/b.txt",)))
    (world.root / POLICY).write_text(yaml(version=1, exclusive_areas=["src"]))
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Only one in src")

    assert places(world) == [("area", "src", [("one", "src"), ("two", "src")])]


@pytest.mark.parametrize(
    ("contracts", "kind", "identifier", "resource"),
    [
        pytest.param({"openapi": "modify"}, "contract", "openapi", "openapi", marks=pytest.mark.req("AOP-206")),
        pytest.param({"events": "modify"}, "contract", "events", "events", marks=pytest.mark.req("AOP-206")),
        pytest.param({"db": "migration"}, "migration", "db", "db_migrations", marks=pytest.mark.req("AOP-207")),
    ],
)
def test_a_contract_that_two_plans_change_wants_its_lock(
    world: World, contracts: dict[str, str], kind: str, identifier: str, resource: str
) -> None:
    for feature in ("one", "two"):
        put_plan(world, feature, contracts={**NO_CONTRACTS, **contracts}, files=files(modify=(f"src/{feature}",)))

    (place,) = plain(world.ok("collisions.scan"))["collisions"]

    assert (place["kind"], place["identifier"]) == (kind, identifier)
    assert place["recommended_actions"][0] == {
        "action": "acquire_lock",
        "message": f"Let them change `{identifier}` one after the other: each acquires the lock `{resource}` in turn.",
    }


def test_a_worker_sees_the_places_of_its_own_feature_only(world: World) -> None:
    put_plan(world, "one")
    put_plan(world, "two")
    put_plan(world, "three", files=files(modify=("src/b.txt",)))
    put_plan(world, "four", files=files(modify=("src/b.txt",)))

    answer = world.call_as_worker("collisions.scan", Role.PLANNER, "three")

    assert [each["identifier"] for each in plain(answer.data)["collisions"]] == ["src/b.txt"]


# --- plans that wait ------------------------------------------------------------------------------


@pytest.mark.req("AOP-201", "AOP-209", "AOP-212")
def test_a_plan_that_waits_is_compared_and_marked_and_named_with_those_it_waits_for(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"collision_policy": "block"})
    world.plan("one")
    for name in ("two", "three"):
        world.init(name)
        assert world.call("plan.submit", feature_id=name, plan_json=plan_for(name)).error is not None

    scanned = plain(world.ok("collisions.scan"))

    (place,) = scanned["collisions"]
    assert [(who["feature_id"], who["queued"]) for who in place["holders"]] == [
        ("one", False),
        ("three", True),
        ("two", True),
    ]
    assert [(each["feature_id"], each["plan_version"], each["waits_for"]) for each in scanned["waiting"]] == [
        ("two", 1, ["one"]),
        ("three", 1, ["one"]),
    ]
    seen = [plain(world.call_as_worker("collisions.scan", Role.PLANNER, name).data) for name in ("one", "two")]
    assert [[each["feature_id"] for each in one["waiting"]] for one in seen] == [["two", "three"], ["two"]]
    world.close()


def test_a_protected_area_with_a_lock_is_changed_by_one_after_the_other(tmp_path: Path) -> None:
    policy = {"protected_areas": ["db"], "locks": {"resources": ["openapi", "events", "db_migrations", "protected:db"]}}
    world = configured(tmp_path / "repo", policy=policy)
    for name in ("one", "two"):
        put_plan(world, name, files=files(create=(f"db/{name}.sql",)))

    (place,) = plain(world.ok("collisions.scan"))["collisions"]

    assert (place["kind"], place["identifier"]) == ("area", "db")
    assert [each["action"] for each in place["recommended_actions"]] == ["acquire_lock", "shared_prerequisite_feature"]
    assert "`protected:db`" in place["recommended_actions"][0]["message"]
    world.close()


# --- trial merges --------------------------------------------------------------------------------


def conflicts(world: World) -> list[tuple[str | None, str, list[tuple[str, str]]]]:
    """Return the conflicts that a scan finds, in short."""
    scanned = plain(world.ok("collisions.scan"))
    assert scanned["untried_merges"] == 0
    return [
        (each["ours"], each["theirs"], [(path["path"], path["kind"]) for path in each["paths"]])
        for each in scanned["conflicts"]
    ]


def feature(world: World, name: str, *diffs: str) -> None:
    """Make a feature whose patches touch whatever they touch."""
    if world.call("feature.state_get", feature_id=name).error:
        world.init(name)
    for diff in diffs:
        world.patch(name, diff)


@pytest.fixture
def unplanned(tmp_path: Path) -> Iterator[World]:
    """A repository in which features may be patched without plans, so that they get into each other's way."""
    policy = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}}
    lines = "".join(f"line {number}\n" for number in range(20))
    made = configured(tmp_path / "repo", policy=policy, files={"lib/x.txt": lines, "lib/y.txt": lines.upper()})
    yield made
    made.close()


def replaced(path: str, old: str, new: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


def commit_on_main(world: World, path: str, text: str) -> None:
    (world.root / path).parent.mkdir(exist_ok=True)
    (world.root / path).write_text(text)
    git(world.root, "add", "-A", "--", path)
    git(world.root, "commit", "-qm", f"Change {path}")


def test_two_features_that_change_the_same_lines_conflict_and_others_do_not(unplanned: World) -> None:
    feature(unplanned, "one", patch_of("src/b.txt", "one", old=("alpha", "beta")))
    feature(unplanned, "two", patch_of("src/b.txt", "two", old=("alpha", "beta")))
    feature(unplanned, "three", PATCH)
    feature(unplanned, "four")

    assert conflicts(unplanned) == [("one", "two", [("src/b.txt", "both_changed")])]


def test_changes_of_other_lines_of_one_file_go_together(unplanned: World) -> None:
    feature(unplanned, "one", "--- a/lib/x.txt\n+++ b/lib/x.txt\n@@ -1,2 +1,2 @@\n-line 0\n+LINE\n line 1\n")
    feature(unplanned, "two", "--- a/lib/x.txt\n+++ b/lib/x.txt\n@@ -19,2 +19,2 @@\n line 18\n-line 19\n+END\n")

    assert conflicts(unplanned) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "paths"),
    [
        pytest.param(
            [patch_of("src/new.txt", "one")],
            [patch_of("src/new.txt", "two")],
            [("src/new.txt", "both_added")],
            id="added",
        ),
        pytest.param(
            [PATCH],
            ["--- a/src/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"],
            [("src/a.txt", "changed_by_ours_deleted_by_theirs")],
            id="deleted",
        ),
        pytest.param(
            [patch_of("src/new", "a file")],
            [patch_of("src/new/below.txt", "in a folder")],
            [("src/new~ours", "names")],
            id="file and folder",
        ),
        pytest.param(
            [
                "diff --git a/lib/x.txt b/other/x.txt\nsimilarity index 100%\nrename from lib/x.txt\n"
                "rename to other/x.txt\ndiff --git a/lib/y.txt b/other/y.txt\nsimilarity index 100%\n"
                "rename from lib/y.txt\nrename to other/y.txt\n"
            ],
            [patch_of("lib/new.txt", "in a folder that moved")],
            [("other/new.txt", "names")],
            id="folder moved away",
        ),
    ],
)
def test_what_conflicts_without_a_common_line_is_found(
    unplanned: World, ours: list[str], theirs: list[str], paths: list[tuple[str, str]]
) -> None:
    feature(unplanned, "one", *ours)
    feature(unplanned, "two", *theirs)

    found = conflicts(unplanned)

    assert [(a, b, [(path.partition("~")[0], kind) for path, kind in each]) for a, b, each in found] == [
        ("one", "two", [(path.partition("~")[0], kind) for path, kind in paths])
    ]


def test_a_feature_that_the_base_has_overtaken_conflicts_with_the_base(unplanned: World) -> None:
    feature(unplanned, "one", PATCH)
    feature(unplanned, "two", replaced("src/b.txt", "alpha", "ALPHA"))
    commit_on_main(unplanned, "src/a.txt", "one\nsomething else\nthree\n")

    assert conflicts(unplanned) == [(None, "one", [("src/a.txt", "both_changed")])]


def test_features_are_compared_as_they_would_be_on_the_base_as_it_is_now(unplanned: World) -> None:
    """The older one changes a file that the base has moved since; the newer one changes it under its new name."""
    feature(unplanned, "old", replaced("lib/x.txt", "line 0", "OLD"))
    git(unplanned.root, "mv", "lib/x.txt", "lib/moved.txt")
    git(unplanned.root, "commit", "-qm", "Move")
    feature(unplanned, "young", replaced("lib/moved.txt", "line 0", "YOUNG"))

    assert conflicts(unplanned) == [("old", "young", [("lib/moved.txt", "both_changed")])]


def test_an_overtaken_feature_is_not_in_conflict_with_all_that_were_cut_later(unplanned: World) -> None:
    feature(unplanned, "old", PATCH)
    feature(unplanned, "twin", PATCH.replace("TWO", "2"))
    commit_on_main(unplanned, "src/a.txt", "one\nsomething else\nthree\n")
    feature(unplanned, "young", replaced("src/b.txt", "alpha", "ALPHA"))
    feature(unplanned, "younger", replaced("src/a.txt", "one", "1"))

    path = [("src/a.txt", "both_changed")]
    assert conflicts(unplanned) == [(None, "old", path), (None, "twin", path), ("old", "twin", path)]


def test_a_base_that_was_moved_aside_is_merged_all_the_same(unplanned: World) -> None:
    commit_on_main(unplanned, "src/aside.txt", "aside\n")
    feature(unplanned, "one", PATCH)
    git(unplanned.root, "reset", "-q", "--hard", "HEAD~1")
    commit_on_main(unplanned, "src/aside.txt", "another\n")

    assert conflicts(unplanned) == [(None, "one", [("src/aside.txt", "both_added")])]


def test_a_base_without_a_common_commit_conflicts_as_a_whole(unplanned: World) -> None:
    feature(unplanned, "one", PATCH)
    git(unplanned.root, "checkout", "-q", "--orphan", "elsewhere")
    git(unplanned.root, "commit", "-qm", "Begin anew")
    git(unplanned.root, "branch", "-f", "main")

    assert conflicts(unplanned) == [(None, "one", [])]


def test_a_resolved_conflict_is_gone_and_a_new_one_is_found(unplanned: World) -> None:
    feature(unplanned, "one", PATCH)
    feature(unplanned, "two", PATCH.replace("TWO", "2"))
    assert [each[:2] for each in conflicts(unplanned)] == [("one", "two")]
    feature(unplanned, "two", patch_of("src/a.txt", "one", "TWO", "three", old=("one", "2", "three")))
    assert conflicts(unplanned) == []
    feature(unplanned, "two", patch_of("src/a.txt", "one", "zwei", "three", old=("one", "TWO", "three")))
    assert [each[:2] for each in conflicts(unplanned)] == [("one", "two")]
    force(unplanned, "one", status=Status.FAILED)
    assert conflicts(unplanned) == []


def test_what_was_tried_is_kept_until_a_side_moves_and_leaves_nothing_in_the_repository(unplanned: World) -> None:
    for name, word in (("one", "TWO"), ("two", "2"), ("three", "II")):
        feature(unplanned, name, PATCH.replace("TWO", word))
    objects = git(unplanned.root, "count-objects", "-v")

    first = conflicts(unplanned)
    tried = tried_merges(unplanned)
    assert conflicts(unplanned) == first
    assert tried_merges(unplanned) == tried == dict.fromkeys(("one:three", "one:two", "three:two"), 1)
    assert git(unplanned.root, "count-objects", "-v") == objects
    assert list((unplanned.root / ".aop/tmp").iterdir()) == []

    feature(unplanned, "two", replaced("src/b.txt", "alpha", "ALPHA"))
    assert conflicts(unplanned) == first
    assert tried_merges(unplanned) == {"one:three": 1, "one:two": 2, "three:two": 2}

    force(unplanned, "two", status=Status.FAILED)
    assert len(conflicts(unplanned)) == 1
    assert tried_merges(unplanned) == {"one:three": 1}


def test_what_is_too_much_for_one_look_is_counted_and_comes_next_time(unplanned: World) -> None:
    for name, word in (("one", "TWO"), ("two", "2"), ("three", "II")):
        feature(unplanned, name, PATCH.replace("TWO", word))
    tips = [
        FeatureTip(feature_id=state.feature_id, base=state.base_commit, tree=state.tree)
        for state in (state_of(unplanned, name) for name in ("one", "two", "three"))
    ]

    first = try_merges(unplanned.app.repository, tips, tips[0].base, {}, most=2)
    second = try_merges(unplanned.app.repository, tips, tips[0].base, first.fresh, most=2)

    assert (len(first.conflicts), first.untried) == (2, 1)
    assert (len(second.conflicts), second.untried, list(second.fresh)) == (3, 0, ["two:three"])


def tried_merges(world: World) -> dict[str, int]:
    with world.app.record.read() as view:
        return {tried.between: tried.version for tried in view.all(TriedMerge)}


def test_a_worker_sees_the_conflicts_of_its_own_feature_only(unplanned: World) -> None:
    for name, word in (("one", "TWO"), ("two", "2")):
        feature(unplanned, name, PATCH.replace("TWO", word))
    feature(unplanned, "three")

    seen = [
        len(plain(unplanned.call_as_worker("collisions.scan", Role.BUILDER, name).data)["conflicts"])
        for name in ("one", "two", "three")
    ]
    assert seen == [1, 1, 0]
