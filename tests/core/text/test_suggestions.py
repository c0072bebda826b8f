"""A misspelt name is answered with the name that was meant."""

from __future__ import annotations

import pytest

from aop.core.text.suggestions import did_you_mean

NAMES = ("greeting", "search", "add-payments-export", "README.md")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("greting", " Did you mean `greeting`?"),
        ("Greeting", " Did you mean `greeting`?"),
        ("add-payment-exports", " Did you mean `add-payments-export`?"),
        ("README.rst", " Did you mean `README.md`?"),
        ("weather", ""),
        ("", ""),
        ("greeting" * 1000, ""),
    ],
)
def test_only_a_close_name_is_suggested(word: str, meant: str) -> None:
    assert did_you_mean(word, NAMES) == meant
