"""One warm call costs what the committed table says: processes, flushes, statements, round trips, files and more."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.costs.one_call import LONGEST, count, counts_of
from tests.costs.rows import ROWS
from tests.costs.table import NO_REASON, TABLE, complaints, expected, rewritten
from tests.costs.trace import STRACE

pytestmark = pytest.mark.unmeasured
NEEDS_STRACE = "strace is missing: only statements on SQLite and modules were counted"


@pytest.mark.parametrize("row", [name for name, row in ROWS.items() if not row.on_postgres])
def test_a_warm_call_costs_what_the_table_says(row: str, tmp_path: Path) -> None:
    check(row, tmp_path)


@needs_postgres
def test_a_warm_call_on_postgresql_costs_what_the_table_says(tmp_path: Path) -> None:
    with running_cluster() as database:
        for row in [name for name, row in ROWS.items() if row.on_postgres]:
            (folder := tmp_path / row.replace(" ", "_")).mkdir()
            check(row, folder, database)


def check(row: str, folder: Path, database: str = "") -> None:
    seen = count(row, folder, database)
    found = [*complaints(row, counts_of(seen), expected().get(row, {}))]
    behind = [f"    {text[:LONGEST]}" for measure in ("processes", "fsyncs") for text in seen.get(measure, ())]
    listed = [f"Processes and fsyncs of `{row}`:", *behind, f'All: python -m tests.costs.one_call --explain "{row}"']
    if found:
        pytest.fail("\n".join([*found, *listed]), pytrace=False)
    if STRACE is None:
        pytest.skip(NEEDS_STRACE)


def test_every_row_of_the_table_is_a_call_and_every_count_has_its_reason() -> None:
    assert {*expected()} == {*ROWS}
    assert [line for line in TABLE.read_text().splitlines() if " = " in line and line.endswith(NO_REASON)] == []


@pytest.mark.parametrize(
    ("measure", "count", "found"),
    [
        ("processes", 2, []),
        ("processes", 3, ["`a`: processes rose by 1, from 2 to 3."]),
        ("processes", 1, ["`a`: processes fell by 1, from 2 to 1."]),
        ("fsyncs", 1, ["`a`: fsyncs rose by 1, from 0 to 1."]),
        ("files", 100, []),
        ("files", 67, []),
        ("files", 101, ["`a`: files 101, 1 above the limit of 100."]),
        ("files", 66, ["`a`: files fell by 34, from 100 to 66."]),
    ],
)
def test_an_exact_count_may_not_change_and_a_limited_one_stays_near_its_limit(
    measure: str, count: int, found: list[str]
) -> None:
    told = [*complaints("a", {measure: count}, {"processes": 2, "files_at_most": 100})]
    assert [each.partition(" If ")[0].partition(" Keep ")[0] for each in told] == found


def test_a_complaint_says_which_line_accepts_the_count() -> None:
    (told,) = complaints("a", {"files": 200}, {"files_at_most": 100})
    assert told.endswith('set `files_at_most = 220` below ["a"] in tests/costs/counts.toml, with the reason.')


def test_written_counts_keep_their_reasons_and_new_ones_ask_for_one() -> None:
    others = '# About.\n\n["a"]\n%s\n["b"]\nfsyncs = 3  # x\n'
    before = "processes = 2  # git\nfsyncs = 1  # record\nfiles_at_most = 100  # refs\n"
    written = rewritten(others % before, "a", {"processes": 3, "fsyncs": 0, "statements": 5, "files": 90})
    assert written == others % "processes = 3  # git\nstatements = 5  # why?\nfiles_at_most = 100  # refs\n"
    assert tomllib.loads(rewritten(written, "c", {"fsyncs": 1}))["c"] == {"fsyncs": 1}
