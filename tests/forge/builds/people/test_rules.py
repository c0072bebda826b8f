"""Rules of money, silence, pauses and notes: pure, as tables."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from aop.core.ids import CommitId, ObjectId
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.costs import Told, cap_of, counted_cost
from aop.forge.builds.people.holds import paused_cycle, resumed_cycle
from aop.forge.builds.people.notes import note_digest, note_message, notes_section
from aop.forge.builds.people.watchdog import begun_watch, looked, revived
from aop.forge.projects.documents import ProjectNote
from aop.kernel.config.workflows import BuildRules
from aop.kernel.record.documents.usage import Sum
from tests.world import World, make_repository

NOW = "2026-01-02T12:00:00.000Z"
CYCLE = BuildCycle(
    version=1,
    build_id="shop-b1",
    project_id="shop",
    branch="forge/build-shop-b1",
    baseline_sha=CommitId(ObjectId("a" * 40)),
    head=CommitId(ObjectId("a" * 40)),
    created_at=NOW,
    updated_at=NOW,
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> BuildRules:
    """The rules that AOP ships: 50 USD, 45, 300 and 900 seconds."""
    world = World(make_repository(tmp_path_factory.mktemp("rules") / "repo"))
    try:
        return world.app.gateway.kernel.config().policy.forge.build
    finally:
        world.close()


def told(events: tuple[Told, ...]) -> list[tuple[str, Any]]:
    return [(each.kind, each.payload.get("cost_usd")) for each in events]


def test_a_build_is_warned_once_at_80_percent_and_held_at_its_cap(rules: BuildRules) -> None:
    cheap, first = counted_cost(CYCLE, rules, Sum(known=39.99), NOW)
    warned, second = counted_cost(cheap, rules, Sum(known=40.0), NOW)
    again, third = counted_cost(warned, rules, Sum(known=49.99), NOW)
    held, fourth = counted_cost(again, rules, Sum(known=50.0), NOW)
    after, fifth = counted_cost(held, rules, Sum(known=50.5), NOW)
    assert [told(each) for each in (first, second, third, fourth, fifth)] == [
        [("cost_ticker", 39.99)],
        [("cost_ticker", 40.0), ("cost_warning", 40.0)],
        [("cost_ticker", 49.99)],
        [("cost_ticker", 50.0), ("cost_exceeded", 50.0)],
        [("cost_ticker", 50.5)],
    ]
    assert (again.hold, held.hold, after.hold, after.cost_usd) == ("", "cost_cap", "cost_cap", 50.5)
    assert held.hold_reason == "The build has cost 50.00 USD of its cap of 50.00 USD."


def test_a_person_who_resumes_a_build_at_its_cap_allows_as_much_again(rules: BuildRules) -> None:
    held, _ = counted_cost(CYCLE, rules, Sum(known=51.0), NOW)
    freed = resumed_cycle(held, NOW)
    after, events = counted_cost(freed, rules, Sum(known=81.0), NOW)
    assert (freed.hold, freed.hold_reason, cap_of(freed, rules)) == ("", "", 100.0)
    assert (after.hold, told(events)) == ("", [("cost_ticker", 81.0), ("cost_warning", 81.0)])


def test_a_cost_that_nobody_reports_is_said_and_holds_nothing(rules: BuildRules) -> None:
    after, events = counted_cost(CYCLE, rules, Sum(known=None, unknown_turns=7), NOW)
    facts: dict[str, Any] = {"build_id": "shop-b1", "cost_usd": 0.0, "cap_usd": 50.0, "unknown_turns": 7}
    assert (after.hold, events) == ("", (Told(kind="cost_ticker", payload=facts),))


def test_no_cap_means_no_warning(rules: BuildRules) -> None:
    after, events = counted_cost(CYCLE, replace(rules, max_usd=0), Sum(known=1e6), NOW)
    assert (after.hold, told(events)) == ("", [("cost_ticker", 1e6)])


def test_the_watchdog_beats_warns_once_and_fails(rules: BuildRules) -> None:
    watch, seen = begun_watch(1000.0), []
    for second in range(1, 901):
        watch, signs = looked(watch, rules, 1000.0 + second, is_asked=False)
        seen += [(second, sign) for sign in signs]
    beats = [(45 * number, "beat") for number in range(1, 21)]
    assert seen == sorted([*beats, (300, "warn"), (900, "fail")], key=lambda each: each[0])


def test_the_watchdog_stands_still_while_a_person_is_asked(rules: BuildRules) -> None:
    watch, _ = looked(begun_watch(0.0), rules, 299.0, is_asked=False)
    watch, asked = looked(watch, rules, 5000.0, is_asked=True)
    watch, before = looked(watch, rules, 5000.5, is_asked=False)
    watch, after = looked(watch, rules, 5001.0, is_asked=False)
    assert (asked, before, after) == (("beat",), (), ("warn",))


def test_a_reply_ends_the_silence_and_the_next_one_is_warned_of_again(rules: BuildRules) -> None:
    watch, first = looked(begun_watch(0.0), rules, 300.0, is_asked=False)
    watch = revived(watch, 310.0)
    watch, second = looked(watch, rules, 609.0, is_asked=False)
    watch, third = looked(watch, rules, 610.0, is_asked=False)
    assert (first, second, third) == (("beat", "warn"), ("beat",), ("warn",))


def test_a_build_that_a_stop_holds_is_not_paused_over_it() -> None:
    stopped = replace(CYCLE, hold="stopped", hold_reason="AMBIGUOUS_INTENT")
    assert paused_cycle(stopped, "lunch", NOW) is stopped
    paused = paused_cycle(CYCLE, "lunch", NOW)
    assert (paused.hold, paused.hold_reason, paused.version) == ("paused", "lunch", 2)
    assert resumed_cycle(CYCLE, NOW) is CYCLE


@pytest.mark.req("FORGE-219", "FORGE-239")
def test_a_note_is_a_section_and_a_changed_one_is_told_once() -> None:
    note = ProjectNote(version=1, project_id="shop", content="Prefer UTC.\n", updated_at=NOW)
    assert notes_section(note) == "## User Notes\n\nPrefer UTC.\n"
    assert notes_section(None) == "## User Notes\n\n(none)\n"
    assert note_message("", None) is None
    assert note_message("", note) == (
        "[NOTE] The user changed the notepad of this project. Call `forge_read_notepad` before you go on."
    )
    assert note_message(note_digest(note), note) is None
    emptied = replace(note, content=" ")
    assert note_message(note_digest(note), emptied) == (
        "[NOTE] The user emptied the notepad of this project: earlier notes no longer hold."
    )
    assert note_message(note_digest(emptied), emptied) is None
