"""Placement of hunks: at the stated line, or at the only other place that fits."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from aop.core.errors import Json, PatchDoesNotApply
from aop.kernel.config.policy import Placement
from aop.kernel.patches.hunks import NO_NEWLINE, Hunk

MAX_SEARCHES = 500
"""The limit of hunks with a wrong line in one file; each costs a pass over the file."""
MAX_PLACES = 20
MAX_SHOWN_LINES = 12
MAX_SHOWN_CHARACTERS = 200


def place(hunks: Sequence[Hunk], content: bytes, *, mode: Placement, path: str = "the file") -> tuple[Hunk, ...]:
    """Return the hunks with the line numbers at which they match the content exactly. Raises: PatchDoesNotApply."""
    file = _File(content)
    placed: list[Hunk] = []
    floor = offset = searches = 0
    for number, hunk in enumerate(hunks, start=1):
        block = _Block(hunk, number, path)
        if file.lines and not block.lines:
            raise _without_context(block)
        begin = hunk.begin
        if not file.holds(block, begin, floor):
            searches += 1
            if searches > MAX_SEARCHES:
                raise PatchDoesNotApply(f"More than {MAX_SEARCHES} hunks of `{path}` state a wrong line.", path=path)
            places = file.places(block, floor)
            if mode is Placement.EXACT or len(places) != 1:
                raise _does_not_apply(block, file, places)
            begin = places[0]
        placed.append(_with_start_lines(hunk, begin, begin + offset))
        floor = begin + hunk.old_count
        offset += hunk.new_count - hunk.old_count
    return tuple(placed)


def _with_start_lines(hunk: Hunk, old_begin: int, new_begin: int) -> Hunk:
    # An empty range is written with the number of the line before it.
    return replace(hunk, old_start=old_begin + (hunk.old_count > 0), new_start=new_begin + (hunk.new_count > 0))


class _Block:
    """The old lines that a hunk needs, each with its line end."""

    def __init__(self, hunk: Hunk, number: int, path: str) -> None:
        self.hunk = hunk
        self.name = f"Hunk {number} of `{path}` (`{hunk.header}`)"
        self.facts: dict[str, Json] = {"path": path, "hunk": number, "stated_line": hunk.old_start}
        self.ends_file = NO_NEWLINE in hunk.lines
        self.lines: list[bytes] = []
        for line, follower in zip(hunk.lines, (*hunk.lines[1:], b""), strict=True):
            if line.startswith((b" ", b"-")):
                self.lines.append(line[1:] + (b"" if follower == NO_NEWLINE else b"\n"))


class _File:
    """The old content, searchable by line number and by text."""

    def __init__(self, content: bytes) -> None:
        *whole, rest = content.split(b"\n")
        self.lines = [line + b"\n" for line in whole] + ([rest] if rest else [])
        self._text = b"\n" + content
        self._offsets = [0, *accumulate(map(len, self.lines))]

    def holds(self, block: _Block, begin: int, floor: int = 0) -> bool:
        """Tell whether the block matches after the first `begin` lines of the file."""
        end = begin + len(block.lines)
        return (
            floor <= begin <= end <= len(self.lines)
            and self.lines[begin:end] == block.lines
            and (end == len(self.lines) or not block.ends_file)
            # Nothing can be added after a last line without a newline.
            and (begin == 0 or self.lines[begin - 1].endswith(b"\n"))
        )

    def places(self, block: _Block, floor: int) -> list[int]:
        """Return the first places at or after line `floor` where the block matches."""
        if not block.lines:
            return []
        if block.ends_file:
            last = len(self.lines) - len(block.lines)
            return [last] if self.holds(block, last, floor) else []
        # A newline before both makes a match begin at a line start; without a marker it also ends at a line end.
        wanted = b"\n" + b"".join(block.lines)
        places: list[int] = []
        at = self._text.find(wanted, self._offsets[floor])
        while at >= 0 and len(places) < MAX_PLACES:
            places.append(bisect_left(self._offsets, at))
            at = self._text.find(wanted, at + 1)
        return places

    def nearest(self, block: _Block) -> int:
        """Return the place that shares most lines with the block, the nearest of several."""
        stated = max(0, min(block.hunk.begin, len(self.lines) - len(block.lines)))
        wanted: dict[bytes, int] = {}
        for index, line in enumerate(block.lines):
            wanted.setdefault(line.strip(), index)
        wanted.pop(b"", None)
        votes = Counter({stated: 0})
        for number, line in enumerate(self.lines):
            index = wanted.get(line.strip(), number + 1)
            if index <= number:
                votes[number - index] += 1
        return max(votes, key=lambda place: (votes[place], -abs(place - stated)))


def _without_context(block: _Block) -> PatchDoesNotApply:
    """Refuse added lines that only a number places: in a file that has changed, they would land anywhere."""
    return PatchDoesNotApply(
        f"{block.name} adds lines without a line of context, so nothing shows that this is their place.",
        hint="Add at least one unchanged line before or after the added ones, and count it in the header.",
        **block.facts,
    )


def _does_not_apply(block: _Block, file: _File, places: list[int]) -> PatchDoesNotApply:
    if places:
        return _fits_elsewhere(block, [begin + 1 for begin in places])
    begin = file.nearest(block)
    nearby = file.lines[begin : begin + len(block.lines)]
    shown = enumerate(nearby[:MAX_SHOWN_LINES], start=begin + 1)
    return PatchDoesNotApply(
        f"{block.name} fits no place of the file. Nearest is line {begin + 1}: {_comparison(block, nearby)}.",
        hint=None,
        looked_for=[_printable(line) for line in block.lines[:MAX_SHOWN_LINES]],
        nearest=[{"line": number, "text": _printable(line)} for number, line in shown],
        **block.facts,
    )


def _fits_elsewhere(block: _Block, lines: list[int]) -> PatchDoesNotApply:
    many = " and more" if len(lines) == MAX_PLACES else ""
    return PatchDoesNotApply(
        f"{block.name} is not at the line that it states; it fits at line {', '.join(map(str, lines))}{many}.",
        hint="State the right line, or add lines of context until the hunk fits one place only.",
        candidate_lines=lines,
        **block.facts,
    )


def _comparison(block: _Block, nearby: list[bytes]) -> str:
    if nearby == block.lines:
        if block.ends_file:
            return "they are the same, but the hunk says that the file ends there"
        return "they are the same, but the hunk above already reaches beyond them"
    for what, without in _ASIDE:
        if [without(line) for line in nearby] == [without(line) for line in block.lines]:
            return f"only {what} differs"
    return "their text differs"


_ASIDE: tuple[tuple[str, Callable[[bytes], object]], ...] = (
    (f"the newline at the end of the file (`{NO_NEWLINE.decode()}`)", lambda line: line.rstrip(b"\n")),
    ("the carriage return at the ends of lines", lambda line: line.rstrip(b"\r\n")),
    ("white space", bytes.split),
)


def _printable(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "backslashreplace")[:MAX_SHOWN_CHARACTERS]
