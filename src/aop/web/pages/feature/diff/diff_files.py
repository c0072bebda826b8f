"""Diff files: the changed files of a feature, in blocks of rows with gaps between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from aop.kernel.tools.repo.diff_bundle import DiffBundle, TouchedFile
from aop.web import review_view
from aop.web.pages.feature.diff.diff_rows import PaintedRow, RowPair, painted_rows, pairs_of
from aop.web.pages.feature.diff.hunks import HunkList, fits, hunks_of, widened
from aop.web.pages.feature.diff.page_query import WHOLE, DiffQuery

FIRST_ROWS = 400
"""So many rows of a file are shown at first."""
PAGE_ROWS = 2000
"""So many rows are shown at first in all; the files after them are folded."""
BLOCK_ROWS = 60
"""A browser lays out one block at a time."""
MORE_LINES = 20
"""So many lines on both sides of a gap are shown at a time."""
MORE_ROWS = 1000
"""So many rows of a file are shown at a time after the first ones."""


Read: TypeAlias = Callable[[str], list[str] | None]
"""Returns the lines of a file of the tree that is shown; None if they cannot be read as text in one go."""


class Gap(Struct, frozen=True, kw_only=True):
    """Lines of a file between two hunks that are not shown."""

    text: str
    """The head of the function that follows."""
    hidden: int | None
    """The number of lines; None if nobody knows."""
    more: str
    """The address that shows more of them; empty if none can."""
    whole: str
    """The address that shows all of them; empty if `more` does."""


class Block(Struct, frozen=True, kw_only=True):
    """Rows that a browser lays out together, after a gap or right below the block before."""

    gap: Gap | None
    rows: tuple[PaintedRow, ...] = ()
    pairs: tuple[RowPair, ...] = ()


class FileDiff(Struct, frozen=True, kw_only=True):
    """One changed file as the page draws it."""

    file: TouchedFile
    anchor: str
    """The name of the file in addresses within the page."""
    notes: tuple[str, ...]
    blocks: tuple[Block, ...]
    more: str
    """The address that shows more rows; empty if all are shown."""
    hidden: int
    """The number of rows that it would add."""
    command: str
    """The command that shows what is left out; empty if nothing is."""
    omitted: str
    """How much that is, in words."""


def diff_files(bundle: DiffBundle, query: DiffQuery, read: Read | None) -> Iterator[FileDiff]:
    """Return the files with as many rows as are wished for; `read` reads a file of the tree, where one can."""
    room = PAGE_ROWS
    for file, lines in review_view.files_with_lines(bundle):
        wished = query.rows.get(file.path, 0)
        found = _hunk_list(file, lines, query, read)
        total = sum(len(hunk.rows) for hunk in found.hunks)
        shown = min(total, max(wished, min(FIRST_ROWS, room)))
        room -= min(shown, room)
        next_rows = {file.path: max(shown, FIRST_ROWS) + (MORE_ROWS if shown else 0)}
        yield FileDiff(
            file=file,
            anchor=anchor_of(file.path),
            notes=tuple(review_view.notes_of(file)),
            blocks=tuple(_blocks(file, found, query, shown)),
            more=query.link(rows=next_rows) if shown < total else "",
            hidden=min(total, next_rows[file.path]) - shown,
            command=review_view.diff_command(bundle, file) if review_view.is_partly_shown(file) else "",
            omitted=review_view.omitted_text(file),
        )


def anchor_of(path: str) -> str:
    """Return the name of a file in addresses within the page; it says nothing of the path, which may be hostile."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()[:8]


def _hunk_list(file: TouchedFile, lines: list[str], query: DiffQuery, read: Read | None) -> HunkList:
    found = hunks_of(row for row in review_view.rows_of_file(file, lines) if row.mark)
    fixed = msgspec.structs.replace(found, hidden_after=0, can_grow=False)
    if read is None or file.kind != "modify" or review_view.is_partly_shown(file):
        return fixed
    if not any(path == file.path for path, _ in query.context):
        return found
    content = read(file.path)
    if content is None or not fits(found, content):
        return fixed
    return widened(found, content, lambda key: query.context.get((file.path, key), 0))


def _blocks(file: TouchedFile, found: HunkList, query: DiffQuery, most: int) -> Iterator[Block]:
    room = most
    for hunk in found.hunks:
        if room <= 0:
            return
        rows = painted_rows(file.path, hunk.rows[:room])
        room -= len(rows)
        gap = _gap(file.path, hunk.key, hunk.hidden, query, text=hunk.text) if hunk.hidden or hunk.key > 1 else None
        if gap and not (found.can_grow and hunk.hidden):
            gap = msgspec.structs.replace(gap, more="", whole="")
        yield from _cut(rows, gap, query)
    if found.hidden_after != 0 and sum(len(hunk.rows) for hunk in found.hunks) <= most:
        yield Block(gap=_gap(file.path, 0, found.hidden_after, query))


def _cut(rows: Sequence[PaintedRow], gap: Gap | None, query: DiffQuery) -> Iterator[Block]:
    if query.layout == "split":
        pairs = tuple(pairs_of(rows))
        for at in range(0, len(pairs), BLOCK_ROWS):
            yield Block(gap=None if at else gap, pairs=pairs[at : at + BLOCK_ROWS])
    else:
        for at in range(0, len(rows), BLOCK_ROWS):
            yield Block(gap=None if at else gap, rows=tuple(rows[at : at + BLOCK_ROWS]))


def _gap(path: str, key: int, hidden: int | None, query: DiffQuery, *, text: str = "") -> Gap:
    place = (path, key)
    more = query.link(context={place: query.context.get(place, 0) + MORE_LINES})
    is_long = hidden is None or hidden > 2 * MORE_LINES
    return Gap(text=text, hidden=hidden, more=more, whole=query.link(context={place: WHOLE}) if is_long else "")
