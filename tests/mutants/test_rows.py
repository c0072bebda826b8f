"""The rows of mutants say what they did when they were written: text, tests and claims are still there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.mutants.mutants import ROWS, Mutant, problems, read_mutants

MUTANTS = read_mutants()
LEAST = 150
LINES = 400


@pytest.mark.parametrize("area", sorted({mutant.area for mutant in MUTANTS}))
def test_every_row_has_its_text_once_and_its_tests_and_their_claims(area: str) -> None:
    assert [problem for mutant in MUTANTS if mutant.area == area for problem in problems(mutant)] == []


def test_there_are_enough_mutants_each_under_its_own_name() -> None:
    assert len(MUTANTS) >= LEAST
    assert [name for name, times in Counter((each.area, each.id) for each in MUTANTS).items() if times > 1] == []


def test_no_file_of_rows_is_longer_than_a_module_may_be() -> None:
    lengths = {path.name: len(path.read_bytes().splitlines()) for path in ROWS.glob("*.toml")}
    assert {name: lines for name, lines in lengths.items() if lines > LINES} == {}


EXAMPLE = MUTANTS[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(EXAMPLE, old="there is no such text"), "`old` stands 0 times"),
        (replace(EXAMPLE, old="e"), "times in"),
        (replace(EXAMPLE, new="("), "was never closed"),
        (replace(EXAMPLE, file="core/gone.py"), "No such file"),
        (replace(EXAMPLE, tests=("tests/mutants/test_rows.py::test_gone",)), "there is no test"),
        (replace(EXAMPLE, breaks="AOP-001: everything"), "none of its tests is marked with `AOP-001`"),
    ],
)
def test_a_row_that_is_out_of_date_is_named(wrong: Mutant, said: str) -> None:
    assert said in " ".join(problems(wrong))
