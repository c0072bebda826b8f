"""What turns cost: kept as it is reported, summed up, and a reason to ask a person before the next turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Sum, Usage
from aop.kernel.record.spending import spending_text, total_of, turn_spending
from aop.supervisor.killed_turns import count_killed_turns
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerOutput
from aop.testing.memory_engine import Memory
from tests.kernel.tools.worlds import configured, patch_of
from tests.mcpserver.clients import served
from tests.supervisor.worlds import ONE, Watched, brought, office
from tests.web.pages.page_visits import visit
from tests.world import PATCH, World, files, plan_for, run_aop

TWO = FeatureId("two")
PLAN = PlanSubmission(plan=plan_for("one"))
GOOD = PatchProposal(unified_diff=PATCH)
READY = {"status": "ready_to_merge", "error": None}


def costing(output: WorkerOutput, **usage: Any) -> WorkerOutput:
    return msgspec.structs.replace(output, usage=Usage(**usage))


def cheap_life(feature: str = "one", *, usd: float = 0.5) -> Watched:
    """Return a worker that plans and builds a file of its own, each turn for the same price."""
    path = f"src/{feature}.txt"
    plan = PlanSubmission(plan=plan_for(feature, allowed_areas=[path], files=files(create=(path,))))
    patch = PatchProposal(unified_diff=patch_of(path, "x"))
    return Watched((Role.PLANNER, costing(plan, cost_usd=usd)), (Role.BUILDER, costing(patch, cost_usd=usd)))


@contextmanager
def capped(tmp_path: Path, **caps: Any) -> Iterator[World]:
    world = configured(tmp_path / "repo", policy={"cost": caps})
    yield world
    world.close()


def questions(world: World) -> list[tuple[str, str, str]]:
    return [(each["question_id"], each["gate"], each["text"]) for each in world.ok("inbox.list")["questions"]]


def sums(spending: Any) -> dict[str, tuple[float | None, int]]:
    return {name: (each["known"], each["unknown_turns"]) for name, each in spending.items() if isinstance(each, dict)}


# --- sums --------------------------------------------------------------------------------------------


def test_self_reports_and_estimates_are_marked_where_they_are_summed() -> None:
    counted, told, guessed = (
        turn_spending(Usage(cost_usd=0.1, **marks)) for marks in ({}, {"self_reported": True}, {"estimated": True})
    )
    assert spending_text(counted) == "1 turn, 0.1000 USD, tokens unknown"
    assert spending_text(total_of([counted, told])) == "2 turns, 0.2000 USD, tokens unknown, self-reported"
    both = total_of([counted, told, guessed])
    assert (both.self_reported_turns, both.estimated_turns) == (1, 1)
    assert spending_text(both) == "3 turns, 0.3000 USD, tokens unknown, self-reported, partly estimated"


def test_what_no_turn_reports_is_unknown_and_ten_cents_ten_times_are_a_dollar() -> None:
    ten = total_of([turn_spending(Usage(cost_usd=0.1))] * 10 + [turn_spending(None)])
    assert (ten.turns, ten.cost_usd, ten.input_tokens) == (
        11,
        Sum(known=1.0, unknown_turns=1),
        Sum(known=None, unknown_turns=11),
    )
    assert spending_text(ten) == "11 turns, 1.0000 USD and 1 unknown, tokens unknown"


@pytest.mark.parametrize(
    "wrong",
    [{"cost_usd": -1.0}, {"cost_usd": 1e12}, {"input_tokens": -5}, {"input_tokens": 1.5}, {"price": 3}],
    ids=str,
)
def test_a_cost_that_cannot_be_is_not_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Usage)


def test_turns_are_summed_by_role_feature_and_run_and_shown_in_status_and_review(world: World) -> None:
    worker = Watched(
        (Role.PLANNER, costing(PLAN, input_tokens=100, output_tokens=10, cached_input_tokens=80, cost_usd=0.25)),
        (Role.BUILDER, Note(note="Thinking.")),
        (Role.BUILDER, costing(GOOD, input_tokens=50, output_tokens=5)),
    )
    assert brought(world, worker).outcome == READY
    dashboard = world.ok("report.dashboard")
    spent = dashboard["features"][0]["spent"]
    assert spent["turns"] == 3
    assert sums(spent) == {
        "input_tokens": (150, 1),
        "output_tokens": (15, 1),
        "cached_input_tokens": (80, 2),
        "cost_usd": (0.25, 2),
    }
    assert dashboard["spent"] == spent
    assert list(dashboard["runs"].values()) == [spent]
    summary = world.ok("report.feature_summary", feature_id="one")
    assert summary["spent"] == spent
    assert {role: each["turns"] for role, each in summary["spent_by_role"].items()} == {"planner": 1, "builder": 2}
    words = "3 turns, 0.2500 USD and 2 unknown, 165 tokens and 1 unknown"
    assert words in run_aop(world.root, "status").out
    assert f"Cost      {words}" in run_aop(world.root, "review", "one").out
    page = world.root.parent / "page.html"
    run_aop(world.root, "review", "one", "--html", str(page))
    assert words in page.read_text()


def test_self_reports_and_estimates_are_marked_at_each_door_that_shows_a_cost(world: World) -> None:
    world.init("one")
    usage = {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25, "self_reported": True, "estimated": True}
    spent = {"worker": "builder", "run": "run-1", "provider": "codex", "usage": usage}
    world.ok("usage.record", role=Role.SYSTEM, feature_id="one", **spent)
    marks, page = "self-reported, partly estimated", world.root.parent / "page.html"
    run_aop(world.root, "review", "one", "--html", str(page))
    shown = {words: run_aop(world.root, *words).out for words in (("status",), ("status", "one"), ("review", "one"))}
    with served(world.root) as server, visit(world.root, server) as browser:
        shown |= {(path,): browser.get(path).text for path in ("/board", "/features/one", "/features/one/review")}
    shown |= {("--html",): page.read_text(), ("watch",): run_aop(world.root, "watch").out}
    assert {words for words, text in shown.items() if marks not in text} == set()
    assert "0.25 USD self-reported partly estimated" in shown["status",]  # in the table of features


def test_every_turn_is_in_the_journal_also_one_without_an_answer(world: World) -> None:
    with office(world, {ONE: Watched((Role.PLANNER, costing(PLAN, cost_usd=0.25)))}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        run = at_work.supervisor.run_name
    with world.app.record.read() as view:
        taken = [entry.event.payload for entry in view.journal(kinds=("turn_taken",))][:2]
    reported = {"input_tokens": None, "output_tokens": None, "cached_input_tokens": None, "cost_usd": 0.25}
    reported |= {"self_reported": False, "estimated": False}
    common = {"run": run, "provider": "replay", "model": None}
    assert taken == [
        {**common, "worker": "planner", "answered": True, "usage": reported},
        {**common, "worker": "builder", "answered": False, "usage": None},
    ]


def test_what_a_run_cost_stays_when_its_feature_is_deleted(world: World) -> None:
    for feature in ("one", "two"):
        world.init(feature)
        given = {"worker": "qa", "run": "run-1", "provider": "p", "usage": {"cost_usd": 1}}
        world.ok("usage.record", role=Role.SYSTEM, feature_id=feature, **given)
    world.ok("feature.delete", feature_id="one", dry_run=False)
    world.init("one")
    dashboard = world.ok("report.dashboard")
    assert [row["spent"]["turns"] for row in dashboard["features"]] == [0, 1]
    assert dashboard["runs"]["run-1"]["cost_usd"]["known"] == 2


# --- caps --------------------------------------------------------------------------------------------


def test_a_feature_over_its_cap_asks_before_the_next_turn_and_goes_on_when_the_cap_is_raised(tmp_path: Path) -> None:
    memory, worker = Memory(), cheap_life()
    with capped(tmp_path, max_usd_per_feature=0.5) as world:
        with office(world, {ONE: worker}, memory=memory) as at_work:
            at_work.supervisor.submit([ONE])
            assert at_work.settle()[ONE].does == "asks"
        assert len(worker.given) == 1
        assert world.ok("plan.get", feature_id="one")["plan"]["plan_version"] == 1
        assert questions(world) == [
            (
                "q1",
                "authorisation",
                "The cap on the feature `one` is reached: 0.5 of 0.5 USD. `raise` allows the same amount again;"
                " `stop` keeps the work and stops here.",
            )
        ]
        refused = world.refusal("inbox.answer", feature_id="one", question_id="q1", answer="Go on, please.")
        assert (refused["code"], refused["details"]["choices"]) == ("not_a_choice", ["raise", "stop"])
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="raise")
        with office(world, {ONE: worker}, memory=memory) as at_work:
            at_work.supervisor.submit([ONE])
            assert at_work.settle()[ONE].outcome == READY
        assert len(worker.given) == 2
        assert questions(world) == []


def test_a_feature_that_is_told_to_stop_is_blocked_with_its_work_kept(tmp_path: Path) -> None:
    worker = cheap_life()
    with capped(tmp_path, max_usd_per_feature=0.5) as world, office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="stop")
        outcome = at_work.settle()[ONE].outcome
        assert (outcome["status"], outcome["error"]["code"]) == ("blocked", "cost_cap_reached")
        state = world.ok("feature.state_get", feature_id="one")["front_matter"]
        reason = "The cost cap of the feature `one` was not raised."
        assert (state["status"], state["status_reason"]) == ("blocked", reason)
        assert world.ok("plan.get", feature_id="one")["plan"]["plan_version"] == 1


def test_a_feature_that_needs_no_more_turns_asks_nothing_although_it_is_over_its_cap(tmp_path: Path) -> None:
    with capped(tmp_path, max_usd_per_feature=0.9) as world:
        assert brought(world, cheap_life()).outcome == READY
        assert questions(world) == []


def test_all_features_of_a_run_over_its_cap_wait_for_one_answer(tmp_path: Path) -> None:
    """The first turn that ends reaches the cap, so that both wait, whichever it was."""
    workers = {ONE: cheap_life("one", usd=1), TWO: cheap_life("two", usd=1)}
    with capped(tmp_path, max_usd_per_run=1) as world, office(world, workers) as at_work:
        at_work.supervisor.submit([ONE, TWO])
        entries = at_work.settle()
        assert {entry.does for entry in entries.values()} == {"asks"}
        [(_, gate, text)] = questions(world)
        assert (gate, "The cap on this run is reached:" in text) == ("authorisation", True)
        while is_open := world.ok("inbox.list")["questions"]:
            [asked] = is_open
            world.ok("inbox.answer", feature_id=asked["feature_id"], question_id=asked["question_id"], answer="raise")
            entries = at_work.settle()
        assert {name: each.outcome for name, each in entries.items()} == {ONE: READY, TWO: READY}


def test_a_cap_on_tokens_counts_input_and_output(tmp_path: Path) -> None:
    worker = Watched((Role.PLANNER, costing(PLAN, input_tokens=90, output_tokens=10)), (Role.BUILDER, GOOD))
    with capped(tmp_path, max_tokens_per_feature=100) as world:
        assert brought(world, worker).does == "asks"
        assert "100 of 100 tokens" in questions(world)[0][2]


def test_a_cap_that_no_turn_reports_anything_for_asks_whether_to_go_on_blindly(tmp_path: Path) -> None:
    notes = [(Role.BUILDER, Note(note=f"Thought {number}.")) for number in range(2)]
    worker = Watched((Role.PLANNER, PLAN), *notes, (Role.BUILDER, GOOD))
    with capped(tmp_path, max_usd_per_feature=5) as world, office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        assert (at_work.settle()[ONE].does, len(worker.given)) == ("asks", 3)
        assert (
            "The cost of the feature `one` is not reported, so the cap of 5 USD cannot be enforced."
            in questions(world)[0][2]
        )
        world.ok("inbox.answer", feature_id="one", question_id="q1", answer="raise")
        assert at_work.settle()[ONE].outcome == READY


@pytest.mark.parametrize(
    ("seen", "cost"),
    [(Usage(cost_usd=0.7), {"known": 0.7, "unknown_turns": 0}), (None, {"known": None, "unknown_turns": 1})],
)
def test_a_turn_that_was_killed_counts_once_with_what_the_meter_saw_or_as_unknown(
    world: World, seen: Usage | None, cost: Any
) -> None:
    world.init()
    given = {"worker": "builder", "run": "run-1", "provider": "claude"}
    begun = world.ok("usage.begin", role=Role.SYSTEM, feature_id="one", **given)["turn"]
    gateway = world.app.gateway
    assert [turn.turn for turn in count_killed_turns(gateway, lambda _turn: seen)] == [begun]
    assert count_killed_turns(gateway, lambda _turn: seen) == ()
    dashboard = world.ok("report.dashboard")
    assert (dashboard["spent"]["turns"], dashboard["spent"]["cost_usd"]) == (1, cost)
    assert dashboard["runs"]["run-1"]["turns"] == 1


def test_a_turn_that_was_counted_is_not_open_any_more_and_neither_is_one_of_a_deleted_feature(world: World) -> None:
    brought(world, cheap_life())
    world.init("two")
    world.ok("usage.begin", role=Role.SYSTEM, feature_id="two", worker="qa", run="run-1", provider="claude")
    world.ok("feature.delete", feature_id="two", dry_run=False)
    assert count_killed_turns(world.app.gateway, lambda _turn: None) == ()
    assert world.ok("report.dashboard")["spent"]["turns"] == 2
