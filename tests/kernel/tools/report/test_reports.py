"""Reports: the past, costs, times, failures, the order of merges, waves, cards and search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from aop.core.errors import Json
from aop.core.ids import FeatureId, OperationId
from aop.core.roles import Role
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Event
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import plain
from tests.world import World, files, git, plan_for

PATCH_B = "--- a/src/b.txt\n+++ b/src/b.txt\n@@ -1,2 +1,2 @@\n alpha\n-beta\n+BETA\n"


def new_file(name: str) -> str:
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,2 @@\n+one\n+two\n"


def newest(world: World) -> int:
    found: int = world.ok("report.journal", limit=1)["newest"]
    return found


def statuses(rows: Any) -> dict[str, str]:
    return {row["feature_id"]: row["status"] for row in plain(rows)}


def old_event(kind: str, feature: FeatureId | None, facts: Mapping[str, Json]) -> Event:
    at, operation = "2026-01-01T00:00:00Z", OperationId("old")
    return Event(kind=kind, at=at, actor="x", operation_id=operation, feature_id=feature, payload=facts)


@pytest.fixture
def blocking(make_world: MakeWorld) -> World:
    return make_world(policy={"collision_policy": "block"})


MORE = """\
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,3 +1,3 @@
 one
 TWO
-three
+THREE
"""
STEPS: tuple[Callable[[World], object], ...] = (
    lambda world: world.plan("one"),
    lambda world: world.patch("one"),
    lambda world: world.ok("gates.run", feature_id="one", mode="fast"),
    lambda world: world.ok("gates.run", feature_id="one", mode="full"),
    lambda world: world.ok("feature.undo", feature_id="one"),
    lambda world: world.ok("feature.redo", feature_id="one"),
    lambda world: world.ok("gates.run", feature_id="one", mode="fast"),
    lambda world: world.ok("feature.undo", feature_id="one"),
    lambda world: world.ok("feature.redo", feature_id="one"),
    lambda world: world.ok("gates.run", feature_id="one", mode="fast"),
    lambda world: world.ok("gates.run", feature_id="one", mode="full"),
    lambda world: world.init("two"),
    lambda world: world.call("plan.submit", feature_id="two", plan_json=plan_for("two")),
    lambda world: world.ok("feature.request_changes", feature_id="one", text="Say more"),
    lambda world: world.patch("one", MORE),
    lambda world: world.ok("gates.run", feature_id="one", mode="fast"),
    lambda world: world.ok("gates.run", feature_id="one", mode="full"),
    lambda world: world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one")),
    lambda world: world.ok("feature.reject", feature_id="two", text="Another way"),
    lambda world: world.ok("feature.stop", feature_id="two"),
    lambda world: world.ok("feature.retry", feature_id="two"),
    lambda world: world.ok("feature.delete", feature_id="two", force=True),
)


def test_a_past_board_shows_role_gates_attempts_and_cost_as_they_were(make_world: MakeWorld) -> None:
    world = make_world()
    world.plan("one")
    planned = newest(world)
    world.patch("one")
    usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}
    spender = {"feature_id": "one", "worker": "builder", "run": "run-1", "provider": "custom"}
    world.ok("usage.record", role=Role.SYSTEM, **spender, usage=usage)
    world.ok("gates.run", feature_id="one", mode="fast")
    proven = newest(world)
    world.patch("one", MORE)

    def row(seq: int) -> tuple[Any, ...]:
        (found,) = world.ok("report.past", seq=seq)["features"]
        return found["role"], found["gates"], found["attempt"], found["spent"]["turns"]

    assert row(planned) == ("", {}, 0, 0)
    assert row(proven) == ("builder", {"fast": "pass"}, 1, 1)
    assert row(newest(world)) == ("builder", {}, 2, 1)


def test_the_board_of_any_number_is_what_the_record_said_then(blocking: World) -> None:
    seen: dict[int, dict[str, str]] = {}
    for step in STEPS:
        step(blocking)
        seen[newest(blocking)] = statuses(blocking.ok("report.dashboard")["features"])
    assert {seq: statuses(blocking.ok("report.past", seq=seq)["features"]) for seq in seen} == seen
    assert {"blocked", "failed", "merged"} <= {status for board in seen.values() for status in board.values()}
    assert blocking.refusal("report.past", seq=newest(blocking) + 1)["code"] == "invalid_arguments"


def test_the_journal_is_searched_by_text_kind_and_feature_and_paged(world: World) -> None:
    world.init("one")
    world.init("two")
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    for number in range(5):
        world.ok("feature.log_append", role=Role.BUILDER, feature_id="two", note=f"Note {number} {secret}")
    page = world.ok("report.journal", text="NOTE", limit=2)
    assert [row["feature_id"] for row in page["entries"]] == ["two", "two"]
    assert secret not in str(plain(page))
    rest = world.ok("report.journal", text="note", before=page["older"])
    assert len(rest["entries"]) == 3
    assert rest["older"] is None
    assert [row["kind"] for row in world.ok("report.journal", feature_id="one")["entries"]] == ["feature_initialised"]
    assert len(world.ok("report.journal", kind="note added")["entries"]) == 5


def test_the_journal_is_searched_beyond_what_it_shows_and_never_inside_a_secret(world: World) -> None:
    world.init("one")
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note=f"{'much ' * 100} and a zebra")
    with world.app.record.write() as tx:
        # As an AOP that knew fewer secrets wrote it.
        tx.append(old_event("note_added", None, {"note": f"The key is {secret}"}))
    found = [row["seq"] for row in world.ok("report.journal", text="zebra")["entries"]]
    assert found == [newest(world) - 1]
    assert [row["seq"] for row in world.ok("report.journal", text="the key is")["entries"]] == [newest(world)]
    assert world.ok("report.journal", text=secret[4:10])["entries"] == []


def test_costs_are_summed_by_each_side_and_unknown_is_not_zero(world: World) -> None:
    world.plan("one")

    def turn(worker: str, model: str | None, usage: dict[str, Any] | None) -> None:
        said: dict[str, Any] = {"feature_id": "one", "worker": worker, "run": "r1", "provider": "codex"}
        world.ok("usage.record", role=Role.SYSTEM, **said, model=model, usage=usage)

    turn("builder", "big", {"cost_usd": 0.5, "input_tokens": 10, "output_tokens": 5})
    turn("builder", "big", {"cost_usd": 0.25, "self_reported": True})
    turn("planner", None, None)
    costs = plain(world.ok("report.costs"))
    assert costs["total"]["cost_usd"] == {"known": 0.75, "unknown_turns": 1}
    assert costs["total"]["self_reported_turns"] == 1
    named = {part: [row["name"] for row in costs[part]] for part in ("runs", "features", "roles", "models")}
    assert named == {
        "runs": ["r1"],
        "features": ["one"],
        "roles": ["builder", "planner"],
        "models": ["codex big", "codex model unknown"],
    }
    assert costs["roles"][1]["spent"]["cost_usd"]["known"] is None
    assert costs["caps"] == []


def test_times_have_every_status_gate_and_day(world: World) -> None:
    world.ready("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    world.init("two")
    times = plain(world.ok("report.times"))
    assert set(times["features"][0]["seconds"]) == {"planning", "building", "qa", "ready_to_merge"}
    assert [(row["mode"], row["step"], row["runs"]) for row in times["gates"]] == [
        (mode, step, 1) for mode in ("fast", "full", "merge") for step in ("", "check")
    ]
    assert [(row["begun"], row["merged"]) for row in times["days"]] == [(2, 1)]


def test_the_same_failure_of_two_features_is_one_row_and_a_note_makes_nothing_pass(world: World) -> None:
    (world.root / "check.sh").write_text("echo 'Error: no table users' >&2; echo \"ran in $$ s\"; exit 1\n")
    git(world.root, "commit", "-qam", "Break the gates")
    for name in ("three", "four"):
        world.plan(name, files=files(create=(f"src/{name}.txt",)))
        world.patch(name, new_file(f"src/{name}.txt"))
        for _ in range(2):
            assert world.call("gates.run", feature_id=name, mode="fast").error
    (row,) = plain(world.ok("report.failures"))["failures"]
    assert (row["count"], sorted(row["features"]), row["step"]) == (4, ["four", "three"], "check")
    assert row["known"] is None
    marked = {"fingerprint": row["fingerprint"], "note": "The table is made too late"}
    assert world.call_as_worker("failures.mark", Role.ORCHESTRATOR, "three", **marked).error
    world.ok("failures.mark", **marked)
    (known,) = plain(world.ok("report.failures"))["failures"]
    assert known["known"]["note"] == "The table is made too late"
    assert world.call("gates.run", feature_id="three", mode="fast").error
    world.ok("failures.mark", fingerprint=row["fingerprint"])
    assert plain(world.ok("report.failures"))["failures"][0]["known"] is None


def test_merges_are_in_the_order_of_approval_and_judged_again_after_each(world: World) -> None:
    world.ready("one")
    world.ready("two", PATCH_B, files=files(modify=("src/b.txt",)))
    world.ready("three", new_file("src/c.txt"), files=files(create=("src/c.txt",)))
    world.approval("two")
    token = world.approval("one")

    def order() -> list[tuple[str, str]]:
        return [(row["feature_id"], row["standing"]) for row in plain(world.ok("report.merges"))["rows"]]

    assert order() == [("two", "approved"), ("one", "approved"), ("three", "unapproved")]
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    after = plain(world.ok("report.merges"))
    # The approval was for the old base: nobody merges it unseen.
    assert order()[0] == ("two", "unapproved")
    assert "the base branch moved after it" in after["rows"][0]["waits"]
    assert [row["feature_id"] for row in after["merged"]] == ["one"]
    assert after["merged"][0]["gates"]["merge"] == "pass"


def test_waves_say_what_waits_for_what_and_where(blocking: World) -> None:
    world = blocking
    folder = world.root / "agentic" / "features" / "after"
    folder.mkdir(parents=True)
    (folder / "spec.md").write_text("---\ndepends_on: [one]\n---\n# After one\n")
    world.plan("one")
    world.init("after")
    world.init("free")
    world.init("late")
    world.call("plan.submit", feature_id="late", plan_json=plan_for("late"))
    found = plain(world.ok("plan.waves"))
    assert [[each["feature_id"] for each in wave] for wave in found["waves"]] == [["free", "one"], ["after", "late"]]
    assert found["waves"][1][0]["waits"] == [{"on": "one", "why": "depends_on", "places": []}]
    (wait,) = found["waves"][1][1]["waits"]
    assert (wait["on"], wait["why"], wait["places"]) == ("one", "collision", ["src/a.txt"])
    assert found["lost"] == 2


def test_cards_have_title_size_and_attempt(world: World) -> None:
    folder = world.root / "agentic" / "features" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.md").write_text("Some words\n\n## A *good* title ##\n")
    world.plan("one")
    world.patch("one")
    world.init("two")
    assert plain(world.ok("report.cards"))["cards"] == [
        {"feature_id": "one", "title": "A *good* title", "files": 1, "lines": 1, "attempt": 1, "doing": ""},
        {"feature_id": "two", "title": "", "files": 0, "lines": 0, "attempt": 0, "doing": ""},
    ]


def test_search_finds_all_words_in_specs_plans_questions_and_files(world: World) -> None:
    folder = world.root / "agentic" / "features" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.md").write_text("# Cart\n\nThe zebra must be striped.\n")
    world.plan("one", summary="Paint the zebra with stripes")
    world.patch("one")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Which zebra?")

    def kinds(text: str) -> list[str]:
        return [row["kind"] for row in plain(world.ok("report.search", text=text))["found"]]

    assert kinds("ZEBRA") == ["spec", "plan", "question"]
    assert kinds("zebra paint") == ["plan"]
    assert kinds("src/a.txt") == ["plan", "file"]
    assert kinds("cart") == ["feature", "spec"]
    assert kinds("giraffe") == []


def test_a_secret_in_an_old_reason_is_shown_by_no_report(world: World) -> None:
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    world.init("one")
    said = {"old": "planning", "new": "failed", "reason": f"The agent said {secret}"}
    with world.app.record.write() as tx:
        # As an AOP that knew fewer secrets wrote it.
        tx.append(old_event("status_changed", FeatureId("one"), said))
    past, failed = world.ok("report.past", seq=newest(world)), world.ok("report.failures")
    assert plain(past)["features"][0]["reason"].startswith("The agent said ")
    assert len(plain(failed)["failures"]) == 1
    assert secret not in f"{plain(past)} {plain(failed)}"


def test_search_does_not_tell_the_letters_of_a_secret(world: World) -> None:
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    world.plan("one")
    with world.app.record.write() as tx:
        # As an AOP that knew fewer secrets wrote it.
        known = tx.get(AcceptedPlan, "one")
        assert known is not None
        plan = replace(known.plan, summary=f"The key is {secret}")
        tx.put(replace(known, version=known.version + 1, plan=plan), "one")
    assert [row["kind"] for row in plain(world.ok("report.search", text="the key is"))["found"]] == ["plan"]
    assert plain(world.ok("report.search", text=secret[4:10]))["found"] == []


def test_a_worker_sees_only_its_own_feature_in_reports(world: World) -> None:
    world.ready("one")
    world.ready("two", PATCH_B, files=files(modify=("src/b.txt",)))
    seen: dict[str, Callable[[Any], list[str]]] = {
        "report.cards": lambda data: [row["feature_id"] for row in data["cards"]],
        "report.merges": lambda data: [row["feature_id"] for row in data["rows"]],
        "plan.waves": lambda data: [row["feature_id"] for wave in data["waves"] for row in wave],
    }
    for tool, names in seen.items():
        assert names(plain(world.call_as_worker(tool, Role.BUILDER, "one").data)) == ["one"]
    for tool in ("report.costs", "report.times", "report.failures", "report.journal", "report.search"):
        assert (world.call_as_worker(tool, Role.BUILDER, "one").error or {})["code"] == "forbidden_tool_for_role"
