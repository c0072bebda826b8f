"""Suggestions: the known name that a misspelt one is closest to."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Longer words are no typing mistakes, and comparing them takes long."""


def closest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that the word is probably a misspelling of, or None."""
    from difflib import get_close_matches

    if len(word) > LONGEST:
        return None
    known = sorted(set(names))
    near = get_close_matches(word, known, n=1) or get_close_matches(word.lower(), known, n=1)
    return next(iter(near), None)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a sentence with the closest name, to follow another sentence; empty if none is close."""
    name = closest(word, names)
    return f" Did you mean `{name}`?" if name else ""
