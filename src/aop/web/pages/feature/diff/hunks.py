"""Hunks of a file's diff, and the lines of the file between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from aop.web.review_view import DiffRow

CONTEXT = 3
"""So many lines git shows on both sides of a change."""


class Hunk(Struct, frozen=True, kw_only=True):
    """Rows without a gap between them."""

    key: int
    """The first new line that git shows in it: the name of the gap before it."""
    text: str
    """The head of the function around it, as git found it."""
    rows: tuple[DiffRow, ...]
    hidden: int
    """The number of lines between the rows before and these."""


class HunkList(Struct, frozen=True, kw_only=True):
    """The hunks of a file, and how many lines follow the last; None if nobody knows."""

    hunks: tuple[Hunk, ...]
    hidden_after: int | None
    can_grow: bool = True
    """Whether the lines between and around them can be read."""


def hunks_of(rows: Iterable[DiffRow]) -> HunkList:
    """Return the hunks of a diff."""
    hunks: list[Hunk] = []
    shown_to, head, held = 0, "", list[DiffRow]()
    for row in (*rows, DiffRow(mark="@", text="")):
        if row.mark != "@":
            held.append(row)
            continue
        if held:
            first = next((each.new for each in held if each.new), 1)
            hunks.append(Hunk(key=first, text=head, rows=tuple(held), hidden=max(0, first - shown_to - 1)))
            shown_to = max([shown_to, *(each.new for each in held if each.new)])
        head, held = row.text.rpartition("@@")[2].strip(), []
    return HunkList(hunks=tuple(hunks), hidden_after=_after(hunks))


def _after(hunks: Sequence[Hunk]) -> int | None:
    """Return 0 if the last hunk ends with the file: git shows three lines after a change where there are three."""
    trailing = 0
    for row in reversed(hunks[-1].rows if hunks else ()):
        if row.mark != " ":
            break
        trailing += 1
    return None if trailing >= CONTEXT else 0


def fits(hunks: HunkList, lines: Sequence[str]) -> bool:
    """Tell whether a file's lines are those of its diff; a masked secret can make them differ."""
    rows = [row for hunk in hunks.hunks for row in hunk.rows if row.new]
    return all(row.new and row.new <= len(lines) and lines[row.new - 1] == row.text for row in rows)


def widened(known: HunkList, lines: Sequence[str], wished: Callable[[int], int]) -> HunkList:
    """Return hunks with as many more lines on both sides of each gap as are wished for it."""
    hunks: list[Hunk] = []
    for hunk in known.hunks:
        first = next((row.new for row in hunk.rows if row.new), 1)
        behind, before, hidden = _shares(wished(hunk.key), hunk.hidden, at_start=not hunks)
        if hunks:
            hunks[-1] = _longer(hunks[-1], lines, behind)
        offset = _offset(hunk)
        rows = (*_plain(lines, first - before, first, offset), *hunk.rows)
        if hunks and not hidden:
            hunks[-1] = msgspec.structs.replace(hunks[-1], rows=(*hunks[-1].rows, *rows))
        else:
            hunks.append(msgspec.structs.replace(hunk, rows=rows, hidden=hidden))
    if not hunks:
        return known
    end = max((row.new for row in hunks[-1].rows if row.new), default=0)
    behind = min(wished(0), len(lines) - end)
    hunks[-1] = _longer(hunks[-1], lines, behind)
    return HunkList(hunks=tuple(hunks), hidden_after=len(lines) - end - behind)


def _shares(wish: int, hidden: int, *, at_start: bool) -> tuple[int, int, int]:
    """Return how many lines are shown after the hunk before a gap, before the one after it, and not at all."""
    behind = 0 if at_start else min(wish, hidden)
    before = min(wish, hidden - behind)
    return behind, before, hidden - behind - before


def _longer(hunk: Hunk, lines: Sequence[str], number: int) -> Hunk:
    end = max((row.new for row in hunk.rows if row.new), default=0)
    offset = _offset(hunk, last=True)
    more = tuple(_plain(lines, end + 1, end + 1 + number, offset))
    return msgspec.structs.replace(hunk, rows=(*hunk.rows, *more))


def _offset(hunk: Hunk, *, last: bool = False) -> int:
    """Return by how much the old numbers of unchanged lines differ from the new ones, at one end of a hunk."""
    rows = reversed(hunk.rows) if last else iter(hunk.rows)
    return next((row.old - row.new for row in rows if row.old and row.new), 0)


def _plain(lines: Sequence[str], first: int, end: int, offset: int) -> Iterator[DiffRow]:
    for number in range(first, end):
        yield DiffRow(mark=" ", text=lines[number - 1], old=number + offset, new=number)
