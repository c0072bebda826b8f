"""Counts in words: "1 file", "2 files"."""

from __future__ import annotations


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun; `many` is the plural where that is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
