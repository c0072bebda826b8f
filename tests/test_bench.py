"""The bench says what it measured, keeps it, and compares two runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measurements import Budget, Measurement, in_turns
from bench.results import Results, comparison, read, table

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("budget", "result", "is_within"),
    [
        (Budget("times", 3.0), 4.0, False),
        (Budget("times", 4.0), 4.0, True),
        (Budget("over", 5.0), 6.0, False),
        (Budget("over", 6.0), 6.0, True),
        (Budget("at most", 7.0), 8.0, False),
        (Budget("at most", 8.0), 8.0, True),
        (Budget("at least", 9.0), 8.0, False),
        (Budget("at least", 8.0), 8.0, True),
        (Budget("share", 5.0), 4.0, False),
        (Budget("share", 4.0), 4.0, True),
        (None, 8.0, None),
    ],
)
def test_a_budget_limits_the_ratio_the_difference_or_the_time_itself(
    budget: Budget | None, result: float, *, is_within: bool | None
) -> None:
    measured = Measurement(name="patch", ours=8.0, floor=2.0, budget=budget)
    assert (measured.result, measured.is_within) == (result, is_within)


def test_both_sides_take_turns_and_the_first_turn_does_not_count() -> None:
    turns: list[str] = []
    ours, floor = in_turns(lambda turn: turns.append(f"ours {turn}"), lambda turn: turns.append(f"raw {turn}"), turns=2)
    assert turns == ["ours 0", "raw 0", "ours 1", "raw 1", "ours 2", "raw 2"]
    assert ours > 0
    assert floor > 0


def test_the_table_is_markdown() -> None:
    rows = [
        Measurement(name="many", unit="/s", ours=9.0, floor=6.0, floor_name="few", budget=Budget("share", 0.8)),
        Measurement(name="patch", ours=8.0, floor=2.0, floor_name="git apply", budget=Budget("times", 3.0)),
        Measurement(name="memory", unit="MB", ours=1.5, budget=Budget("at most", 20.0)),
    ]
    assert table(rows).splitlines() == [
        "| measurement | ours   | floor  | the floor is | result | budget        |        |",
        "| ----------- | ------ | ------ | ------------ | ------ | ------------- | ------ |",
        "| many        | 9.0 /s | 6.0 /s | few          | 1.50 x | share 0.8     | kept   |",
        "| patch       | 8.0 ms | 2.0 ms | git apply    | 4.00 x | times 3       | MISSED |",
        "| memory      | 1.5 MB |        |              |        | at most 20 MB | kept   |",
    ]


def test_two_runs_are_compared_by_the_names_that_both_have() -> None:
    old, new = run_of("aaa", patch(8.0)), run_of("bbb", patch(6.0))
    assert comparison(old, new).splitlines()[2:] == ["| patch       | 8.0 ms | 6.0 ms | -25 % | 4.00 x | 3.00 x |"]


def test_a_run_prints_and_keeps_what_it_found() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "plan.submit", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(ended.stdout)
    kept = read(ROOT / "bench" / "results" / f"{printed['commit']}-quick-partial.json")
    assert [each.name for each in kept.measurements] == ["plan.submit, 1000 features"]


def run_of(commit: str, *measured: Measurement) -> Results:
    only_here = Measurement(name=f"only in {commit}", ours=1.0)
    return Results(commit=commit, machine="", is_quick=False, is_partial=False, measurements=(*measured, only_here))


def patch(ours: float) -> Measurement:
    return Measurement(name="patch", ours=ours, floor=2.0, budget=Budget("times", 3.0))
