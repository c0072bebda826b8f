"""The bench says what it measured, keeps it, and compares two runs."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bench.cases import CASES
from bench.effort import Effort
from bench.measurements import Budget, Measurement, Skipped, in_turns
from bench.results import (
    BEGIN,
    DOCUMENT,
    END,
    Results,
    comparison,
    read,
    summary,
    table,
    with_figures,
    write,
    write_whole,
)

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


def test_a_run_prints_and_keeps_what_it_found(tmp_path: Path) -> None:
    with bench(tmp_path, "plan.submit", "--json") as run:
        printed, _ = run.communicate()
    assert run.returncode == 0
    kept = read(tmp_path / "results" / f"{json.loads(printed)['commit']}-quick-partial.json")
    assert [each.name for each in kept.measurements] == ["plan.submit, 20 features"]


def test_a_case_that_fails_is_reported_with_its_error_and_the_others_run(tmp_path: Path) -> None:
    with bench(tmp_path, *cases("raising", "dying", "skipping", "measuring")) as run:
        printed, progress = run.communicate()
    assert run.returncode == 1
    [file] = (tmp_path / "results").iterdir()
    kept = read(file)
    assert kept.is_partial
    assert [each.name for each in kept.measurements] == ["raising", "measuring"]
    assert list(kept.failed) == cases("raising", "dying")
    raising, dying = kept.failed.values()
    assert raising.startswith("It ended with exit code 1.\nTraceback")
    assert raising.endswith("ValueError: no figure")
    assert dying == "It ended with exit code 3.\nsome last words"
    assert kept.skipped == {"tests.test_bench:skipping": "There is no such program."}
    assert printed.endswith(
        "SKIPPED: tests.test_bench:skipping: There is no such program.\n"
        "FAILED: tests.test_bench:raising: It ended with exit code 1. ValueError: no figure\n"
        f"FAILED: tests.test_bench:dying: It ended with exit code 3. some last words\n\n{file}\n"
    )
    assert "case 4 of 4: tests.test_bench:measuring took" in progress


def test_a_killed_run_leaves_what_it_has_measured_and_no_process(tmp_path: Path) -> None:
    with bench(tmp_path, *cases("measuring", "waiting")) as run:
        assert run.stderr is not None
        next(line for line in run.stderr if "waiting: " in line)
        [file] = (tmp_path / "results").iterdir()
        measured = read(file).measurements
        with open(os.pidfd_open(int(measured[-1].ours)), "rb") as case:
            run.kill()
            ended, _, _ = select.select([case], [], [], 60.0)
    assert [each.name for each in measured] == ["measuring", "waiting"]
    assert read(file).measurements == measured
    assert ended == [case]


def test_the_file_of_an_unfinished_run_becomes_that_of_the_whole_run(tmp_path: Path) -> None:
    unfinished = Results(commit="aaa", machine="", is_quick=False)
    write(unfinished, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["aaa-partial.json"]
    whole = write_whole(unfinished, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["aaa.json"]
    assert read(tmp_path / "aaa.json") == whole


def test_the_summary_names_the_budgets_that_were_missed() -> None:
    assert summary(run_of("aaa", patch(8.0), patch(6.0))).splitlines() == [
        "1 of 2 budgets were missed:",
        "- patch: 4.00 x, budget times 3",
    ]


def test_the_figures_of_the_docs_are_those_of_one_whole_run() -> None:
    document = f"Before\n{BEGIN}old figures\n{END}After\n"
    whole = run_of("aaa", patch(8.0))
    written = with_figures(document, whole)
    assert written == f"Before\n{BEGIN}aaa, , load 0.0 before, 0.0 after\n\n{table(whole.measurements)}{END}After\n"
    assert with_figures(written, whole) == written
    for less in ({"is_partial": True}, {"is_quick": True}, {"commit": "aaa-dirty"}):
        with pytest.raises(ValueError, match="not the results of a whole run"):
            with_figures(document, msgspec.structs.replace(whole, **less))


def test_the_docs_have_a_place_for_the_figures_and_a_row_for_each_case() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert (document.count(BEGIN), document.count(END)) == (1, 1)
    assert re.findall(r"^\| `([a-z_.]+)` \|", document, re.MULTILINE) == list(CASES)


# --- cases that these tests run --------------------------------------------------------------------


def cases(*names: str) -> list[str]:
    return [f"{__name__}:{name}" for name in names]


def measuring(_effort: Effort) -> Iterator[Measurement]:
    yield Measurement(name="measuring", ours=1.0)


def raising(_effort: Effort) -> Iterator[Measurement]:
    yield Measurement(name="raising", ours=1.0)
    raise ValueError("no figure")


def dying(_effort: Effort) -> Iterator[Measurement]:
    os.write(1, b"some last words\n")
    os._exit(3)
    yield


def skipping(_effort: Effort) -> Iterator[Skipped]:
    yield Skipped("There is no such program.")


def waiting(_effort: Effort) -> Iterator[Measurement]:
    yield Measurement(name="waiting", ours=os.getpid())
    threading.Event().wait(60.0)


def bench(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the bench with some cases; a folder gets its results, and what it leaves when it is killed."""
    only = [word if word.startswith("--") else f"--only={word}" for word in words]
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "--quick", "--results", str(folder / "results"), *only],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_of(commit: str, *measured: Measurement) -> Results:
    only_here = Measurement(name=f"only in {commit}", ours=1.0)
    return Results(commit=commit, machine="", is_quick=False, is_partial=False, measurements=(*measured, only_here))


def patch(ours: float) -> Measurement:
    return Measurement(name="patch", ours=ours, floor=2.0, budget=Budget("times", 3.0))
