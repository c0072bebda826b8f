"""What counts as an obligation of a spec, line by line, and how obligations are numbered."""

from __future__ import annotations

import pytest

from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.named_tests import fates_of_tests
from aop.kernel.plans.obligations.spec_scan import LONGEST_OBLIGATION, scan_spec
from aop.kernel.record.documents.obligations import MOST_OBLIGATIONS, FoundObligation, Obligation, assign_numbers

SPEC = """\
---
title: it must not be read
---
# Export

Orders can be exported. The export must hold every order,
also old ones. It is a file. It SHALL be
CSV.

## What it has
- a header
* one line
  for each order
1. [ ] a checksum
- The footer has:
  - a total
  - the date

```
- code must not be read
```
<!-- - a comment
that must not be read -->

## The export must be fast

## Out of scope
- PDF
### Also not
It must not be mailed.

## Acceptance criteria
Given an order, when I export, then it is there.

| it | must work |
"""


def shown(text: str) -> list[tuple[int, str, str]]:
    return [(each.line, each.section, each.text) for each in scan_spec(text).found]


def test_list_items_and_what_must_or_shall_be_and_acceptance_criteria_are_obligations() -> None:
    assert shown(SPEC) == [
        (6, "Export", "The export must hold every order, also old ones."),
        (7, "Export", "It SHALL be CSV."),
        (11, "What it has", "a header"),
        (12, "What it has", "one line for each order"),
        (14, "What it has", "a checksum"),
        (16, "What it has", "a total"),
        (17, "What it has", "the date"),
        (25, "The export must be fast", "The export must be fast"),
        (33, "Acceptance criteria", "Given an order, when I export, then it is there."),
        (35, "Acceptance criteria", "| it | must work |"),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "Nothing is demanded.\n", "---\n", "```\n- never closed\n", "#\n", "- \n"]
)
def test_a_text_that_demands_nothing_has_no_obligations(text: str) -> None:
    assert shown(text) == []


def test_what_is_too_much_is_counted_and_what_is_too_long_is_cut() -> None:
    many = scan_spec("".join(f"- thing {number}\n" for number in range(MOST_OBLIGATIONS + 7)))
    assert (len(many.found), many.left_out) == (MOST_OBLIGATIONS, 7)
    (long,) = scan_spec(f"- {'x' * 10_000}\n").found
    assert len(long.text) == LONGEST_OBLIGATION


@pytest.mark.parametrize("line", ["- " * 100_000, "must. " * 40_000, "<!--" * 60_000, "> " * 120_000, "a\n" * 100_000])
def test_a_hostile_text_is_scanned_in_one_pass(line: str) -> None:
    assert len(scan_spec(line).found) <= MOST_OBLIGATIONS


def test_an_obligation_keeps_its_number_while_its_words_stay_and_no_number_is_given_twice() -> None:
    first = assign_numbers(scan_spec("- a\n- b\n- b\n- c\n").found, (), 0)
    assert [each.id for each in first] == ["O1", "O2", "O3", "O4"]
    second = assign_numbers(scan_spec("- new\n- C\n- b\n- a\n").found, first, 4)
    assert [(each.id, each.text) for each in second] == [("O5", "new"), ("O4", "C"), ("O2", "b"), ("O1", "a")]
    third = assign_numbers(scan_spec("- b\n- newer\n").found, second, 5)
    assert [each.id for each in third] == ["O2", "O6"]


def test_the_same_text_always_has_the_same_numbers() -> None:
    assert assign_numbers(scan_spec(SPEC).found, (), 0) == assign_numbers(scan_spec(SPEC).found, (), 0)
    assert assign_numbers(scan_spec("- a\n").found, (), 0) == (Obligation(id="O1", line=1, section="", text="a"),)
    assert scan_spec("- a\n").found == (FoundObligation(line=1, section="", text="a"),)


@pytest.mark.parametrize(
    ("named", "reported", "fate"),
    [
        ("tests/test_csv.py::test_header", "tests.test_csv.test_header", "passed"),
        ("tests/test_csv.py::TestCsv::test_header", "tests.test_csv.TestCsv.test_header", "passed"),
        ("test_header", "tests.test_csv.test_header", "passed"),
        ("test_header", "tests.test_csv.test_header[semicolon]", "passed"),
        ("test_header[semicolon]", "tests.test_csv.test_header[semicolon]", "passed"),
        ("test_header[comma]", "tests.test_csv.test_header[semicolon]", "absent"),
        ("tests/test_csv.py::test_header", "test_csv.test_header", "passed"),
        ("tests/test_csv.py::test_header", "tests.test_pdf.test_header", "absent"),
        ("header", "tests.test_csv.test_header", "absent"),
        ("CSV export writes a header", "CSV export writes a header", "passed"),
    ],
)
def test_a_test_is_found_however_the_report_spells_it(named: str, reported: str, fate: str) -> None:
    assert fates_of_tests([named], [ReportedTest(name=reported, passed=True)]) == {named: fate}


def test_a_test_passed_only_if_every_case_of_it_did() -> None:
    cases = [ReportedTest(name="t.test_a[1]", passed=True), ReportedTest(name="t.test_a[2]", passed=False)]
    assert fates_of_tests(["test_a", "test_a[1]"], cases) == {"test_a": "not_passed", "test_a[1]": "passed"}
