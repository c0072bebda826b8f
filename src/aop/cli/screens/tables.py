"""Tables: rows laid out as lines of a terminal; widths are those of the glyphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

GAP = "  "
NARROWEST_NAME = 16
NARROWEST_TEXT = 0.4
"""The part of the line that the last column gets before others are shortened."""
UNLIMITED = 1_000_000
"""The width where no terminal limits it: each row is one line, and nothing is shortened."""

Paint: TypeAlias = Callable[[str, str], str]
"""A style and a text, and the text in that style."""


class Column(Struct, frozen=True, kw_only=True):
    """A column: its title, and what gives way in a narrow terminal."""

    title: str
    shrinks: bool = False
    """Whether its cells are shortened in the middle where the last column would get too narrow."""
    from_width: int = 0
    """The narrowest terminal that shows it."""
    width: int = 0
    """Its width where rows are laid out one at a time; 0: that of its widest cell."""
    right: bool = False
    """Whether its cells end at the same place."""


class Cell(Struct, frozen=True, gc=False):
    """A text in a style; a cell of the last column may have more phrases, on lines of their own where needed."""

    text: str
    style: str = ""
    more: tuple[Cell, ...] = ()
    """The further phrases."""
    most_lines: int = 0
    """How many lines it may take, in the last column; 0: all that it needs."""
    is_command: bool = False
    """Whether it is a command: it is neither shortened nor wrapped, so that it can be pasted."""


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, paint: Paint, *, with_titles: bool = True
) -> list[str]:
    """Lay out rows below their titles; the last column takes the rest of the line and is wrapped at spaces."""
    shown = [at for at, column in enumerate(columns) if column.from_width <= width]
    kept = [columns[at] for at in shown]
    cells = [[row[at] for at in shown] for row in rows]
    widths = _widths(kept, cells, width)
    titles = [Cell(column.title, "bold") for column in kept]
    return [
        line
        for row in ([titles] if with_titles else []) + cells
        for line in _row_lines(kept, row, widths, width, paint)
    ]


def shorten(text: str, width: int) -> str:
    """Return a text that is at most so wide: its middle gives way, since both ends of an id tell it from others."""
    if width_of(text) <= width:
        return text
    left, right = width // 2, (width - 1) // 2
    return f"{_begin(text, left)}…{_begin(text[::-1], right)[::-1]}"


def wrap(text: str, width: int) -> list[str]:
    """Cut a text at its spaces into lines that are at most so wide; only a word that is wider is shortened."""
    if len(text) <= width and text.isascii():
        return [text]
    lines, line = [], ""
    for word in text.split():
        fitting = shorten(word, width)
        longer = f"{line} {fitting}" if line else fitting
        if line and width_of(longer) > width:
            lines.append(line)
            longer = fitting
        line = longer
    return [*lines, line]


def wrap_beside(begin: str, text: str, width: int, *, narrowest: int = 1) -> list[str]:
    """Wrap a text beside the begin of its first line, into lines that are together at most so wide."""
    first, *others = wrap(text, max(width - width_of(begin), narrowest))
    return [f"{begin}{first}".rstrip(), *(f"{'':<{width_of(begin)}}{line}" for line in others)]


def join_wrapped(parts: Sequence[str], width: int, separator: str = " | ") -> list[str]:
    """Join parts into lines that are at most so wide; only a part that is wider is wrapped itself."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines else part
        if lines and width_of(longer) <= width:
            lines[-1] = longer
        else:
            lines += wrap(part, width)
    return lines


def width_of(text: str) -> int:
    """Return how many columns a text takes: a wide character takes two, a combining one none."""
    if text.isascii():
        return len(text)
    return sum(map(_width_of_character, text))


def _width_of_character(character: str) -> int:
    # Most tables are ASCII, and `aop status` is typed often.
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _begin(text: str, width: int) -> str:
    taken = 0
    for at, character in enumerate(text):
        taken += _width_of_character(character)
        if taken > width:
            return text[:at]
    return text


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Return the widths of all columns but the last, which gets the rest."""
    widths = [
        column.width or max([width_of(column.title), *(width_of(row[at].text) for row in rows)])
        for at, column in enumerate(columns[:-1])
    ]
    for at, column in enumerate(columns[:-1]):
        missing = int(NARROWEST_TEXT * width) - _rest(widths, width)
        if column.shrinks and missing > 0:
            widths[at] = max(min(widths[at], NARROWEST_NAME), widths[at] - missing)
    return widths


def command_cell(command: str) -> Cell:
    """Return a command as a phrase."""
    return Cell(command, "bold", is_command=True)


def _rest(widths: Sequence[int], width: int) -> int:
    return width - sum(widths) - len(GAP) * len(widths)


def _row_lines(
    columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], width: int, paint: Paint
) -> Iterator[str]:
    begin = "".join(
        _padded(cell, taken, paint, right=column.right) + GAP
        for column, cell, taken in zip(columns[:-1], row[:-1], widths, strict=True)
    )
    indent = sum(widths) + len(GAP) * len(widths)
    first, *others = _text_lines(row[-1], max(width - indent, 1), paint)
    yield f"{begin}{first.text}".rstrip()
    for line in others:
        yield " " * max(0, indent - line.excess) + line.text


def _padded(cell: Cell, width: int, paint: Paint, *, right: bool) -> str:
    text = shorten(cell.text, width)
    blank = " " * (width - width_of(text))
    painted = paint(cell.style, text)
    return blank + painted if right else painted + blank


class _Line(Struct, frozen=True):
    """A painted line of the last column."""

    text: str
    excess: int = 0
    """By how much a command is wider than the column: it begins further to the left, and can be pasted."""


def _text_lines(cell: Cell, width: int, paint: Paint) -> Iterator[_Line]:
    phrases = [phrase for phrase in (cell, *cell.more) if phrase.text] or [cell]
    if sum(width_of(phrase.text) + len(GAP) for phrase in phrases) - len(GAP) <= width:
        yield _Line(GAP.join(paint(phrase.style, phrase.text) for phrase in phrases))
        return
    if phrases[0].is_command:
        yield _Line("")
    for phrase in phrases:
        if phrase.is_command:
            yield _Line(paint(phrase.style, phrase.text), max(0, width_of(phrase.text) - width))
        else:
            yield from (_Line(paint(phrase.style, line)) for line in phrase_lines(phrase, width))


def phrase_lines(phrase: Cell, width: int) -> list[str]:
    """Wrap a phrase into its lines, at most as many as it may take."""
    lines = wrap(phrase.text, width)
    if not phrase.most_lines or len(lines) <= phrase.most_lines:
        return lines
    return [*lines[: phrase.most_lines - 1], _with_ellipsis(lines[phrase.most_lines - 1], width)]


def _with_ellipsis(line: str, width: int) -> str:
    """Return a line that shows that there is more; whole words make room for the sign."""
    while width_of(line) + 2 > width and " " in line:
        line = line.rpartition(" ")[0]
    return f"{line} …"
