"""`aop report`: what the pages show, at a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.cli.history.report import REPORTS
from aop.core.ids import OperationId
from aop.kernel.record.port import Event
from aop.kernel.tools.report.journal_pages import MOST_SEARCHED
from tests.world import World, files, make_repository, plan_for, run_aop


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("reports") / "repo"))
    made.ready("one")
    yield made
    made.close()


NEEDED = {"board": ("--at", "3"), "search": ("one",), "versions": ("--feature", "one")}
SHOWN = {
    "plan": "can go on now",
    "merges": "Nobody has approved it yet.",
    "costs": "",
    "failures": "",
    "times": "fast check",
    "journal": "gates_ran",
    "board": "building",
    "search": "feature",
    "versions": "the first plan",
}


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_each_report_is_printed_and_has_the_answer_of_its_tool_as_json(world: World, name: str) -> None:
    words = ("report", name, *NEEDED.get(name, ()))
    printed = run_aop(world.root, *words)
    assert printed.code == 0, printed.err
    assert SHOWN[name] in printed.out
    assert printed.out or "No " in printed.err
    answered = run_aop(world.root, *words, "--json")
    assert answered.code == 0
    assert answered.json["data"]


def test_a_search_that_did_not_see_the_whole_journal_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.init("first")
    note = Event(
        kind="note_added", at="2026-01-01T00:00:00Z", actor="x", operation_id=OperationId("old"), feature_id=None
    )
    with world.app.record.write() as tx:
        for _ in range(MOST_SEARCHED):
            tx.append(note)
    world.close()
    searched = run_aop(tmp_path / "repo", "report", "journal", "first")
    assert (searched.code, searched.out) == (0, "")
    assert searched.err == (
        "Entries before number 2 were not searched. Go on with: aop report journal first --before 2\n"
    )
    assert "feature_initialised" in run_aop(tmp_path / "repo", "report", "journal", "first", "--before", "2").out


@pytest.mark.parametrize(
    "words", [("board",), ("search",), ("versions",), ("board", "--at", "999"), ("costs", "--mark", "0" * 12)]
)
def test_wrong_use_names_the_right_one(world: World, words: tuple[str, ...]) -> None:
    refused = run_aop(world.root, "report", *words)
    assert refused.code != 0
    assert "aop report" in refused.err or "journal" in refused.err


def test_a_failure_is_noted_as_known_by_a_person_only(world: World) -> None:
    marked = run_aop(world.root, "report", "failures", "--mark", "0123456789ab", "flaky", "on", "Mondays")
    assert marked.code == 0, marked.err
    assert "still a failure" in marked.err
    refused = run_aop(world.root, "report", "failures", "--mark", "0123456789ab", "x", env={"AOP_TOKEN": "x"})
    assert refused.code != 0


def test_the_changes_between_two_versions_of_a_plan_are_printed_in_words(world: World) -> None:
    world.plan("two", files=files(modify=("src/b.txt",)))
    revised = plan_for(
        "two",
        plan_version=2,
        revision_of=1,
        revision_reason="It needs a test",
        files=files(modify=("src/b.txt",)),
        acceptance_criteria=["The file says so", "A test shows it"],
    )
    world.ok("plan.update", feature_id="two", plan_json=revised, expected_plan_version=1)
    printed = run_aop(world.root, "report", "versions", "--feature", "two", "--between", "1", "2")
    assert printed.code == 0, printed.err
    for words in ("plan 2", "It needs a test", "criterion 2 is new", "+ A test shows it"):
        assert words in printed.out
    refused = run_aop(world.root, "report", "versions", "--feature", "two", "--between", "1", "7")
    assert (refused.code != 0, "has no version 7" in refused.err) == (True, True)
