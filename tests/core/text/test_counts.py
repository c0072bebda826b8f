from __future__ import annotations

import pytest

from aop.core.text.counts import count


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
