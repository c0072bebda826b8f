"""Counts in words: "1 file", "2 files", "a, b and 3 more"."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun; `many` is the plural where that is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def list_some(names: Sequence[str], most: int = 3, *, between: str = ", ") -> str:
    """Return the first of many names, and how many there are beside them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
