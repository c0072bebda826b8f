"""Diff parts: a large diff in excerpts that together have all its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_NEW_START = re.compile(r"@@ -\S+ \+([0-9]+)")


class DiffExcerpt(Struct, frozen=True, kw_only=True):
    """A part of a diff, for one question."""

    text: str
    files: tuple[str, ...]
    """The headers of the files in it."""


def diff_excerpts(diff: str, most_chars: int) -> tuple[DiffExcerpt, ...]:
    """Cut a diff between files, else between hunks, else between lines."""
    parts: list[list[tuple[str, str]]] = [[]]
    size = 0
    for name, text in _pieces(diff, most_chars):
        if parts[-1] and size + len(text) > most_chars:
            parts.append([])
            size = 0
        parts[-1].append((name, text))
        size += len(text)
    return tuple(
        DiffExcerpt(text="".join(text for _, text in part), files=tuple(dict.fromkeys(name for name, _ in part)))
        for part in parts
        if part
    )


def _pieces(diff: str, most: int) -> Iterator[tuple[str, str]]:
    """Return pieces with their file, not longer than `most` unless a single line is."""
    for file in filter(None, _FILE.split(diff)):
        name = file.partition("\n")[0].removeprefix("diff --git ")
        if len(file) <= most:
            yield name, file
            continue
        header, *hunks = _HUNK.split(file)
        for hunk in hunks or [""]:
            for piece in _hunk_pieces(hunk, max(most - len(header), 1)):
                yield name, header + piece


def _hunk_pieces(hunk: str, most: int) -> Iterator[str]:
    if len(hunk) <= most:
        yield hunk
        return
    first, *lines = hunk.splitlines(keepends=True)
    start = _NEW_START.match(first)
    at = int(start[1]) if start else 1
    kept, size = [first], len(first)
    for line in lines:
        if len(kept) > 1 and size + len(line) > most:
            yield "".join(kept)
            kept, size = [f"@@ the same hunk, from line {at} of the new file @@\n"], 0
        kept.append(line)
        size += len(line)
        at += line.startswith(("+", " "))
    yield "".join(kept)


def file_list(files: Sequence[str]) -> str:
    """Return the files of a part as text."""
    return ", ".join(f"`{name.partition(' b/')[2] or name}`" for name in files)
