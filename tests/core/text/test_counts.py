from __future__ import annotations

import pytest

from aop.core.text.counts import count, list_some


@pytest.mark.parametrize(
    ("number", "nouns", "words"),
    [
        (0, ("file",), "0 files"),
        (1, ("file",), "1 file"),
        (2, ("file",), "2 files"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int, nouns: tuple[str, ...], words: str) -> None:
    assert count(number, *nouns) == words


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")],
)
def test_of_many_names_the_first_are_listed_and_the_others_counted(names: list[str], text: str) -> None:
    assert list_some(names) == text
