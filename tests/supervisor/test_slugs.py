"""Feature ids from the words of a text."""

from __future__ import annotations

import pytest

from aop.core.text.slugs import slug_of
from aop.supervisor.specs.slugs import unused_id


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Greeting ignores the name", "greeting-ignores-the-name"),
        ("  `greet()` fails: KeyError!  ", "greet-fails-keyerror"),
        ("Grüße mit Umlauten", "grue-mit-umlauten"),
        ("../../etc/passwd", "etc-passwd"),
        ("--force", "force"),
        ("one two three four five six seven eight nine ten", "one-two-three-four-five-six-seven-eight"),
        ("x" * 300, "x" * 40),
        ("挨拶", ""),
        ("!!!", ""),
    ],
)
def test_a_slug_has_the_first_words(text: str, slug: str) -> None:
    assert slug_of(text) == slug


def test_an_id_is_valid_and_not_taken() -> None:
    taken = {"greet", "greet-2"}
    assert unused_id("Greet", taken.__contains__) == "greet-3"
    # Git gives this name another meaning.
    assert unused_id("HEAD", taken.__contains__) == "head-2"
    assert unused_id("挨拶", taken.__contains__) == "fix"
