"""Differences of two texts as a unified diff, in a time that no text can stretch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_LINES = 8000
"""Above this many lines that differ, on both sides together, lines in the middle are not compared with each other."""


def unified_difference(before: str, after: str, old_name: str, new_name: str) -> str:
    """Return a unified diff; empty if the texts are the same."""
    from difflib import unified_diff

    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = _equal_at_start(old, new)
    last = _equal_at_start(old[first:][::-1], new[first:][::-1])
    changed = len(old) + len(new) - 2 * (first + last)
    # difflib takes minutes for long texts of lines that often repeat.
    compare = unified_diff(old, new, old_name, new_name) if changed <= MOST_LINES else _replaced(old, new, first, last)
    heads = () if changed <= MOST_LINES else (f"--- {old_name}\n", f"+++ {new_name}\n")
    lines = (*heads, *compare)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _equal_at_start(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines at the start are the same."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def _replaced(old: Sequence[str], new: Sequence[str], first: int, last: int) -> Iterator[str]:
    """Yield one hunk that replaces all lines between the first and the last that are the same."""
    gone, come = old[first : len(old) - last], new[first : len(new) - last]
    yield f"@@ -{first + bool(gone)},{len(gone)} +{first + bool(come)},{len(come)} @@\n"
    yield from (f"-{line}" for line in gone)
    yield from (f"+{line}" for line in come)
