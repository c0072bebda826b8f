"""Text search: line by line, in time that is linear in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from aop.core.errors import InvalidArguments

LONGEST_LINE = 400
_BEFORE_MATCH = 100
_MEMORY_OF_A_PATTERN = 8 * 1024 * 1024

FirstMatch = Callable[[str], int | None]
"""Returns where in a text the first match begins, or None."""


class Match(Struct, frozen=True, kw_only=True):
    """One line that matches."""

    line: int
    """Counted from 1."""
    column: int
    """The column of the first match, counted from 1."""
    text: str
    """The line; secrets are masked."""
    cut: bool
    """Whether `text` is only a part of the line: the part around the match."""


def first_match(query: str, *, regex: bool, ignore_case: bool) -> FirstMatch:
    """Return what looks for a text, or for a pattern as RE2 knows them. Raises: InvalidArguments."""
    # Costs more to import than a call that needs no pattern takes.
    import re2  # type: ignore[import-untyped]

    if any(character in query for character in "\0\n\r"):
        raise InvalidArguments("The query has a line break or a NUL in it; lines are searched one by one.")
    options = re2.Options()
    options.literal = not regex
    options.case_sensitive = not ignore_case
    options.never_nl = True
    options.log_errors = False
    options.max_mem = _MEMORY_OF_A_PATTERN
    try:
        pattern = re2.compile(f"(?m){query}" if regex else query, options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args else "it is not a pattern"
        raise InvalidArguments(
            f"The query is not a regular expression that RE2 takes: {said}.",
            hint="Correct it (RE2 has no look-around and no back references), or leave `regex` out.",
        ) from error

    def found(text: str) -> int | None:
        match = pattern.search(text)
        return None if match is None else int(match.start())

    return found


def matching_lines(text: str, first: FirstMatch) -> Iterator[Match]:
    """Yield the lines of a text that match, in order."""
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        at = first(line)
        if at is not None:
            begin = max(0, at - _BEFORE_MATCH) if len(line) > LONGEST_LINE else 0
            shown = line[begin : begin + LONGEST_LINE]
            yield Match(line=number, column=at + 1, text=shown, cut=len(shown) < len(line))
