"""Diff rows: lines of a diff with colours and changed words, alone or in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from markupsafe import Markup, escape
from msgspec import Struct

from aop.core.text.visible import pieces
from aop.web.pages.feature.diff.code_colours import LONGEST_LINE, Span, line_colours
from aop.web.pages.feature.diff.word_changes import Part, word_changes
from aop.web.pages.templates import marked
from aop.web.review_view import DiffRow

_ESCAPED = Markup('<b class="esc">{}</b>')
_COLOURED = Markup('<i class="{}">{}</i>')
_CHANGED = Markup("<mark>{}</mark>")


class PaintedRow(Struct, frozen=True, kw_only=True):
    """One line of a diff as it is drawn."""

    mark: str
    old: int | None
    new: int | None
    html: Markup
    left_out: int = 0
    """The number of characters of a long line that are not shown."""

    @property
    def at(self) -> str:
        """Return its place in the file: `n` or `o` for the new or the old one, and the number of the line."""
        return f"n{self.new}" if self.new else f"o{self.old}" if self.old else ""


class RowPair(Struct, frozen=True, kw_only=True):
    """An old line beside its new one; one of them may be missing."""

    left: PaintedRow | None
    right: PaintedRow | None


def painted_rows(path: str, rows: Sequence[DiffRow]) -> list[PaintedRow]:
    """Return the rows of one hunk as they are drawn."""
    colours = _colours(path, rows)
    words = _changed_words(rows)
    return [
        PaintedRow(
            mark=row.mark,
            old=row.old,
            new=row.new,
            html=painted(row.text[:LONGEST_LINE], colours.get(at, ()), words.get(at, ())),
            left_out=max(0, len(row.text) - LONGEST_LINE) + row.cut,
        )
        for at, row in enumerate(rows)
    ]


def pairs_of(rows: Sequence[PaintedRow]) -> Iterator[RowPair]:
    """Return rows side by side: a removed line beside the line that took its place."""
    for removed, added in _changes([row.mark for row in rows]):
        for left, right in zip_longest(removed, added):
            yield RowPair(
                left=None if left is None else rows[left],
                right=None if right is None else rows[right],
            )


def _changes(marks: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
    """Return the numbers of the rows that stand beside each other; a row that did not change stands beside itself."""
    removed: list[int] = []
    added: list[int] = []
    for at, mark in enumerate(marks):
        if mark == "+":
            added.append(at)
            continue
        if added or mark != "-":
            yield from ((removed, added),) if removed or added else ()
            removed, added = [], []
        if mark == "-":
            removed.append(at)
        else:
            yield [at], [at]
    if removed or added:
        yield removed, added


def _colours(path: str, rows: Sequence[DiffRow]) -> dict[int, tuple[Span, ...]]:
    colours: dict[int, tuple[Span, ...]] = {}
    for hidden in ("+", "-"):
        side = [at for at, row in enumerate(rows) if row.mark not in (hidden, "\\")]
        colours |= dict(zip(side, line_colours(path, [rows[at].text for at in side]), strict=True))
    return colours


def _changed_words(rows: Sequence[DiffRow]) -> dict[int, tuple[Part, ...]]:
    words: dict[int, tuple[Part, ...]] = {}
    for removed, added in _changes([row.mark for row in rows]):
        for left, right in zip(removed, added, strict=False):
            if left != right and max(len(rows[left].text), len(rows[right].text)) <= LONGEST_LINE:
                words[left], words[right] = word_changes(rows[left].text, rows[right].text)
    return words


def painted(line: str, colours: Sequence[Span], words: Sequence[Part]) -> Markup:
    """Return one line as HTML; characters that hide stand out whatever colour is around them."""
    if not colours and not words:
        return marked(line)
    styles = [""] * len(line)
    for begin, end, colour in colours:
        styles[begin:end] = [colour] * (end - begin)
    for begin, end in words:
        styles[begin:end] = [f"{style}w" for style in styles[begin:end]]
    drawn: list[Markup] = []
    start = 0
    for piece in pieces(line):
        if piece.escaped:
            drawn.append(_ESCAPED.format(piece.text))
            start += 1
            continue
        for style, places in groupby(range(start, start + len(piece.text)), styles.__getitem__):
            drawn.append(_styled("".join(line[at] for at in places), style))
        start += len(piece.text)
    return Markup("").join(drawn)


def _styled(text: str, style: str) -> Markup:
    shown = escape(text)
    if colour := style.removesuffix("w"):
        shown = _COLOURED.format(colour, shown)
    return _CHANGED.format(shown) if style.endswith("w") else shown
