"""qa.test_index_get and qa.test_index_update: what is still to be tested, and what it takes to say that it passed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.record.documents.features import Status
from tests.kernel.tools.worlds import configured, events, force, gates_of, patch_of, plain, step
from tests.world import PATCH, World, files

LONG = [f"line {number}" for number in range(1, 31)]


def hunk(number: int, text: str, *, old: str | None = None) -> str:
    """Write the diff that replaces one line of the long file."""
    old = f"line {number}" if old is None else old
    return f"--- a/src/long.txt\n+++ b/src/long.txt\n@@ -{number} +{number} @@\n-{old}\n+{text}\n"


@pytest.fixture
def patched(tmp_path: Path) -> Iterator[World]:
    """A feature with two hunks in one file, and one in another."""
    made = configured(tmp_path / "repo", files={"src/long.txt": "".join(f"{line}\n" for line in LONG)})
    made.plan(files=files(create=("src/new.txt",), modify=("src/long.txt", "src/a.txt")))
    made.patch("one", hunk(3, "LINE 3"))
    made.patch("one", hunk(20, "LINE 20"))
    made.patch("one", PATCH)
    yield made
    made.close()


def index_of(world: World) -> Any:
    return plain(world.ok("qa.test_index_get", role=Role.QA, feature_id="one"))


def refs(world: World, path: str = "src/long.txt") -> list[str]:
    return [each["ref"] for item in index_of(world)["index"]["items"] if item["path"] == path for each in item["hunks"]]


def statuses(world: World) -> dict[str, list[str]]:
    """Return what is known of each hunk, by file."""
    items = index_of(world)["index"]["items"]
    return {item["path"]: [each.get("status", "pending") for each in item["hunks"]] for item in items}


def update(world: World, *updates: dict[str, Any], runs: tuple[str, ...] = (), version: int | None = None) -> Any:
    """Mark as QA does, at the version that is there now."""
    return world.call(
        "qa.test_index_update",
        role=Role.QA,
        feature_id="one",
        expected_version=version or index_of(world)["index"]["version"],
        updates=list(updates),
        evidence_refs=list(runs),
    )


def run_gates(world: World) -> list[str]:
    """Prove the feature; it stays with QA."""
    runs = [str(world.ok("gates.run", feature_id="one", mode=mode)["gate_run_id"]) for mode in ("fast", "full")]
    force(world, status=Status.QA)
    return runs


@pytest.mark.req("AOP-197")
def test_the_index_says_exactly_what_is_to_be_tested(patched: World) -> None:
    answer = index_of(patched)

    assert answer["counts"] == {"pending": 2, "running": 0, "passed": 0, "failed": 0, "waived": 0}
    assert answer["hunk_counts"] == {"pending": 3, "running": 0, "passed": 0, "failed": 0, "waived": 0}
    (short,), (first, second) = refs(patched, "src/a.txt"), refs(patched)
    tests = ["full:check"]
    assert answer["pending"] == [
        {"path": "src/a.txt", "hunks": [pending(short, 2, tests)]},
        {"path": "src/long.txt", "hunks": [pending(first, 3, tests), pending(second, 20, tests)]},
    ]
    on_disk = json.loads((patched.root / "agentic/features/one/qa_test_index.json").read_text())
    assert answer["index"] == on_disk


def test_a_hunk_is_the_same_one_when_others_come_after_it(patched: World) -> None:
    (short,), (first, second) = refs(patched, "src/a.txt"), refs(patched)
    patched.patch("one", hunk(25, "LINE 25"))
    patched.patch("one", "--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1 @@\n+new\n")
    assert (refs(patched, "src/a.txt"), refs(patched)[:2]) == ([short], [first, second])


def pending(ref: str, line: int, tests: list[str]) -> dict[str, Any]:
    return {
        "ref": ref,
        "start_line": line,
        "end_line": line,
        "change_type": "modified",
        "status": "pending",
        "required_tests": tests,
    }


def test_a_feature_without_a_patch_has_no_index(world: World) -> None:
    world.init()
    answer = index_of(world)
    assert (answer["index"], answer["pending"], sum(answer["counts"].values())) == (None, [], 0)


@pytest.mark.req("AOP-147", "AOP-198")
def test_hunks_pass_by_the_runs_that_prove_it(patched: World) -> None:
    _, run = run_gates(patched)
    (short,), (first, second) = refs(patched, "src/a.txt"), refs(patched)
    version = index_of(patched)["index"]["version"]

    answer = update(
        patched,
        {"path": "src/long.txt", "status": "passed", "hunk_refs": [first, second]},
        {"path": "src/a.txt", "status": "passed", "hunk_refs": [short]},
        runs=(run,),
    )

    assert plain(answer.data) == {
        "feature_id": "one",
        "version": version + 1,
        "counts": {"pending": 0, "running": 0, "passed": 2, "failed": 0, "waived": 0},
        "hunk_counts": {"pending": 0, "running": 0, "passed": 3, "failed": 0, "waived": 0},
    }
    index = index_of(patched)
    assert index["pending"] == []
    finished = plain(patched.ok("evidence.latest", feature_id="one"))["latest"]["finished_at"]
    assert index["index"]["items"][0] == {
        "path": "src/a.txt",
        "hunks": [
            {
                "ref": short,
                "start_line": 2,
                "end_line": 2,
                "change_type": "modified",
                "status": "passed",
                "evidence_refs": [run],
            }
        ],
        "required_tests": ["full:check"],
        "status": "passed",
        "last_run_at": finished,
        "evidence_refs": [run],
    }
    assert json.loads((patched.root / "agentic/features/one/qa_test_index.json").read_text()) == index["index"]
    assert events(patched)[-1] == "qa_index_updated"


def test_nobody_passes_without_a_run_of_every_required_test_on_the_tree_as_it_is(patched: World) -> None:
    (first, _) = refs(patched)
    passing = {"path": "src/long.txt", "status": "passed", "hunk_refs": [first]}
    fast, full = run_gates(patched)
    codes = [update(patched, passing, runs=runs).error["code"] for runs in ((), (fast,))]
    assert codes == ["evidence_stale"] * 2
    patched.patch("one", patch_of("src/new.txt", "more"))
    stale = update(patched, passing, runs=(full,)).error
    assert (stale["code"], stale["details"]["missing_tests"]) == ("evidence_stale", ["full:check"])
    assert set(statuses(patched)["src/long.txt"]) == {"pending"}


def test_a_run_that_failed_proves_nothing_even_of_the_steps_that_passed(tmp_path: Path) -> None:
    steps = [*step("true", name="unit"), *step("test ! -e src/new.txt", name="whole")]
    world = configured(tmp_path / "repo", gates=gates_of(full=steps))
    world.plan(files=files(create=("src/new.txt",)))
    world.patch("one", patch_of("src/new.txt", "x"))
    world.ok("gates.run", feature_id="one", mode="fast")
    assert not world.call("gates.run", feature_id="one", mode="full").ok
    run = plain(world.ok("evidence.latest", feature_id="one"))["latest"]["run_id"]
    marks = [
        {"path": "src/new.txt", "status": status, "hunk_refs": refs(world, "src/new.txt")}
        for status in ("passed", "failed")
    ]

    refused, taken = (update(world, mark, runs=(run,)) for mark in marks)

    assert refused.error["details"]["missing_tests"] == ["full:unit", "full:whole"]
    assert plain(taken.data)["counts"]["failed"] == 1
    assert index_of(world)["pending"][0]["hunks"][0]["status"] == "failed"
    world.close()


def test_evidence_of_another_feature_is_none(patched: World) -> None:
    _, run = run_gates(patched)
    patched.plan("two", files=files(modify=("src/b.txt",)))
    patched.patch("two", patch_of("src/b.txt", "x", old=("alpha", "beta")))
    foreign = patched.refusal(
        "qa.test_index_update",
        feature_id="two",
        expected_version=1,
        updates=[{"path": "src/b.txt", "status": "running"}],
        evidence_refs=[run],
    )
    assert foreign["message"] == f"`two` has no gate run `{run}`."
    invented = update(patched, {"path": "src/a.txt", "status": "running"}, runs=("gate-x",))
    assert (invented.error["code"], invented.error["details"]["evidence_ref"]) == ("invalid_arguments", "gate-x")


@pytest.mark.req("AOP-198")
@pytest.mark.parametrize("status", ["passed", "failed", "waived"])
def test_what_was_found_out_is_said_of_hunks_not_of_whole_files(patched: World, status: str) -> None:
    _, run = run_gates(patched)
    error = update(patched, {"path": "src/a.txt", "status": status, "reason": "so"}, runs=(run,)).error
    assert error["message"] == f"`hunk_refs` must name the hunks of `src/a.txt` that are `{status}`."


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ({"path": "src/x.txt", "status": "running"}, "The index has no file `src/x.txt`."),
        ({"path": "SRC/A.TXT", "status": "running"}, "The index has no file `SRC/A.TXT`."),
        ({"path": "src/a.txt", "status": "running", "hunk_refs": ["0"]}, "`src/a.txt` has no hunk `0`."),
        ({"path": "src/a.txt", "status": "done"}, "Invalid enum value 'done'"),
        ({"path": "src/a.txt", "status": "running", "force": True}, "unknown field `force`"),
    ],
)
def test_a_mark_that_fits_nothing_is_refused_and_changes_nothing(
    patched: World, mark: dict[str, Any], message: str
) -> None:
    before = patched.fingerprint()
    error = update(patched, mark).error
    assert error["code"] == "invalid_arguments"
    assert message in error["message"]
    assert patched.fingerprint() == before


def test_one_hunk_is_not_marked_twice_in_one_update(patched: World) -> None:
    running = {"path": "src/a.txt", "status": "running"}
    assert update(patched, running, running).error["message"] == "A hunk of `src/a.txt` is marked twice."


def test_a_waiver_needs_a_reason_and_stands_in_the_decisions_with_it(patched: World) -> None:
    mark = {"path": "src/a.txt", "status": "waived", "hunk_refs": refs(patched, "src/a.txt")}
    assert "give a `reason`" in update(patched, {**mark, "reason": " \n"}).error["message"]

    assert update(patched, {**mark, "reason": "Only\nwords."}).ok

    assert index_of(patched)["counts"]["waived"] == 1
    assert index_of(patched)["index"]["items"][0]["hunks"][0]["reason"] == "Only words."
    told = (patched.root / "agentic/features/one/decisions.md").read_text()
    assert "src/a.txt: 1 waived (Only words.)" in told


@pytest.mark.req("AOP-145")
def test_what_is_known_of_a_hunk_survives_patches_that_do_not_touch_it(patched: World) -> None:
    _, run = run_gates(patched)
    passing = {"path": "src/long.txt", "status": "passed", "hunk_refs": refs(patched)}
    assert update(patched, passing, runs=(run,)).ok
    assert update(patched, {"path": "src/a.txt", "status": "running"}).ok

    patched.patch("one", "--- a/src/long.txt\n+++ b/src/long.txt\n@@ -1 +1,3 @@\n+zero\n+zero\n line 1\n")
    assert statuses(patched) == {"src/a.txt": ["running"], "src/long.txt": ["pending", "passed", "passed"]}
    assert [each["start_line"] for each in index_of(patched)["index"]["items"][1]["hunks"]] == [1, 5, 22]

    patched.patch("one", hunk(22, "Line 20", old="LINE 20"))
    assert statuses(patched) == {"src/a.txt": ["running"], "src/long.txt": ["pending", "passed", "pending"]}
    assert index_of(patched)["counts"] == {"pending": 1, "running": 1, "passed": 0, "failed": 0, "waived": 0}


def test_a_test_that_is_required_from_now_on_makes_everything_pending_again(patched: World) -> None:
    _, run = run_gates(patched)
    assert update(patched, {"path": "src/long.txt", "status": "passed", "hunk_refs": refs(patched)}, runs=(run,)).ok
    plan = plain(patched.ok("plan.get", feature_id="one"))["plan"]
    more = {"modes": {"full": {"steps": [{"name": "extra", "cmd": ["true"]}]}}}
    revised = {**plan, "plan_version": 2, "revision_of": 1, "verification_overrides": more}
    patched.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=revised)
    patched.patch("one", patch_of("src/new.txt", "x"))
    assert statuses(patched)["src/long.txt"] == ["pending", "pending"]


def test_a_change_without_lines_is_a_hunk_too(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.plan(files=files(create=("src/empty.txt",), modify=("src/a.txt",)))
    world.patch("one", "diff --git a/src/empty.txt b/src/empty.txt\nnew file mode 100644\nindex 0000000..e69de29\n")
    world.patch("one", "diff --git a/src/a.txt b/src/a.txt\nold mode 100644\nnew mode 100755\n")
    world.patch("one", PATCH)

    found = {
        item["path"]: [(each["start_line"], each["change_type"]) for each in item["hunks"]]
        for item in index_of(world)["index"]["items"]
    }
    assert found == {"src/a.txt": [(0, "modified"), (2, "modified")], "src/empty.txt": [(0, "added")]}
    world.close()


@pytest.mark.req("AOP-198")
@pytest.mark.hostile("S17")
def test_an_update_of_an_index_that_has_moved_is_refused(patched: World) -> None:
    patched.patch("one", patch_of("src/new.txt", "x"))
    error = update(patched, {"path": "src/a.txt", "status": "running"}, version=3).error
    assert (error["code"], error["message"]) == (
        "qa_index_version_conflict",
        "The QA index of `one` is at version 4, not 3.",
    )
    assert (error["details"]["expected_version"], error["details"]["current_version"]) == (3, 4)


def test_of_updates_that_come_at_once_exactly_one_is_taken(patched: World) -> None:
    version = index_of(patched)["index"]["version"]

    def mark(status: str) -> bool:
        own = World(patched.root)
        try:
            return bool(update(own, {"path": "src/a.txt", "status": status}, version=version).ok)
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(mark, ["running", "pending"] * 2)) == [False, False, False, True]


def test_marks_and_patches_that_come_at_once_lose_nothing(patched: World) -> None:
    def mark_often() -> int:
        own = World(patched.root)
        try:
            return sum(update(own, {"path": "src/a.txt", "status": "running"}).ok for _ in range(8))
        finally:
            own.close()

    with ThreadPoolExecutor(1) as pool:
        marking = pool.submit(mark_often)
        for number in range(5):
            patched.patch("one", hunk(10, f"turn {number}", old=f"turn {number - 1}" if number else None))
        marked = marking.result(timeout=300)

    assert index_of(patched)["index"]["version"] == 3 + 5 + marked
    assert statuses(patched) == {
        "src/a.txt": ["running" if marked else "pending"],
        "src/long.txt": ["pending", "pending", "pending"],
    }


def test_an_ended_feature_has_nothing_marked(patched: World) -> None:
    force(patched, status=Status.FAILED)
    error = update(patched, {"path": "src/a.txt", "status": "running"}).error
    assert error["code"] == "invalid_status_transition"


@pytest.mark.req("AOP-156", "AOP-198")
def test_a_builder_cannot_mark_and_a_qa_worker_only_its_own_feature(patched: World) -> None:
    arguments = {"feature_id": "one", "expected_version": 3, "updates": [{"path": "src/a.txt", "status": "running"}]}
    errors = [
        patched.call_as_worker("qa.test_index_update", role, feature, **arguments).error
        for role, feature in ((Role.BUILDER, "one"), (Role.QA, "two"), (Role.QA, "one"))
    ]
    assert [error and error["code"] for error in errors] == ["forbidden_tool_for_role"] * 2 + [None]
