"""Search in a text, line by line."""

from __future__ import annotations

import pytest

from aop.core.errors import InvalidArguments
from aop.core.text.search import LONGEST_LINE, Match, first_match, matching_lines


def found(text: str, query: str, *, regex: bool = False, ignore_case: bool = False) -> list[Match]:
    return list(matching_lines(text, first_match(query, regex=regex, ignore_case=ignore_case)))


def test_a_literal_is_found_with_line_and_column() -> None:
    assert found("one\nt.o two\n", "t.o") == [Match(line=2, column=1, text="t.o two", cut=False)]


def test_a_pattern_is_found_as_re2_knows_it() -> None:
    assert [match.line for match in found("a1\nb\nc22\n", r"\d+$", regex=True)] == [1, 3]


def test_case_counts_unless_it_is_ignored() -> None:
    assert found("TWO\n", "two") == []
    assert [match.column for match in found("TWO\n", "two", ignore_case=True)] == [1]


def test_of_a_long_line_the_part_around_the_match_is_shown() -> None:
    (match,) = found("x" * 1000 + "needle" + "y" * 1000, "needle")
    assert (match.column, match.cut, len(match.text)) == (1001, True, LONGEST_LINE)
    assert "needle" in match.text


@pytest.mark.parametrize(
    ("query", "regex", "said"),
    [
        ("a\nb", False, "a line break or a NUL"),
        ("a\0", True, "a line break or a NUL"),
        ("(", True, "not a regular expression that RE2 takes"),
        (r"(?=x)", True, "not a regular expression that RE2 takes"),
    ],
)
def test_a_query_that_cannot_be_searched_for_is_refused(query: str, said: str, *, regex: bool) -> None:
    with pytest.raises(InvalidArguments, match=said):
        first_match(query, regex=regex, ignore_case=False)
