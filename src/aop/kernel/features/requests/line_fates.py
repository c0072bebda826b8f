"""Line fates: what became of commented lines in a later tree, by git's own diff.

Lines that no hunk touches are unchanged, and shift with what is added or removed above them. Touched lines are sought
among the added ones, exactly and nearest to their old place; then as the only ones that differ in white space alone;
then, where their file is gone, as the only such lines in a new file. What is not found cannot be placed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from aop.core.errors import Fault
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode, GitObjects

Fate: TypeAlias = Literal["unchanged", "changed", "gone", "unknown"]
LARGEST_FILE = 4 * 1024 * 1024
MOST_NEW_FILES = 50
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FILES = (FileMode.FILE, FileMode.EXECUTABLE)


class LineFate(Struct, frozen=True, kw_only=True):
    """The fate of lines of a file."""

    fate: Fate
    file: str = ""
    """The file that has them now; empty if they cannot be placed."""
    first: int = 0
    last: int = 0
    now: str = ""
    """The lines in their place, if they changed."""


class LineHunk(Struct, frozen=True):
    """One hunk without context: old lines, and the new ones in their place."""

    old: int
    removed: int
    new: int
    added: int

    def is_before(self, line: int) -> bool:
        """Tell whether it lies wholly above a line of the old file."""
        return self.old + self.removed - 1 < line if self.removed else self.old < line

    def holds(self, line: int) -> bool:
        """Tell whether it removes a line of the old file."""
        return self.old <= line < self.old + self.removed

    def touches(self, first: int, last: int) -> bool:
        """Tell whether it removes a line of a range, or adds lines inside of it."""
        if not self.removed:
            return first <= self.old < last
        return self.old <= last and self.old + self.removed > first


def file_fate(objects: GitObjects, old: TreeId, new: TreeId, path: str) -> LineFate:
    """Return what became of a whole file."""
    try:
        before, after = objects.entry(old, path), objects.entry(new, path)
    except Fault:
        return LineFate(fate="unknown")
    if after is None or after.mode not in _FILES:
        return LineFate(fate="gone")
    return LineFate(fate="unchanged" if before == after else "changed", file=path)


HunksOf: TypeAlias = Callable[[TreeId, TreeId, str], Sequence[LineHunk]]


def hunks_of_file(objects: GitObjects, old: TreeId, new: TreeId, path: str) -> Sequence[LineHunk]:
    """Return what differs in a file; git is started for it."""
    return [*_hunks(objects.diff(old, new, context_lines=0, paths=[path]))]


def line_fate(
    objects: GitObjects, old: TreeId, new: TreeId, path: str, lines: tuple[int, int], *, hunks_of: HunksOf
) -> LineFate:
    """Return what became of a range of lines."""
    first, last = lines
    try:
        if objects.entry(old, path) == objects.entry(new, path):
            return LineFate(fate="unchanged", file=path, first=first, last=last)
        wanted = _lines_of(objects, old, path)[first - 1 : last]
        if not wanted:
            return LineFate(fate="unknown")
        if not _is_file(objects, new, path):
            return _in_new_file(objects, old, new, wanted)
        content = _lines_of(objects, new, path)
        hunks = hunks_of(old, new, path)
    except Fault:
        # Git removes old objects that no ref names.
        return LineFate(fate="unknown")
    return _fate_in(path, wanted, content, hunks, lines)


def _fate_in(
    path: str, wanted: list[str], content: list[str], hunks: Sequence[LineHunk], lines: tuple[int, int]
) -> LineFate:
    begin, end = _mapped(hunks, lines[0], at_end=False), _mapped(hunks, lines[1], at_end=True)
    if not any(hunk.touches(*lines) for hunk in hunks):
        return LineFate(fate="unchanged", file=path, first=begin, last=end)
    added = {line for hunk in hunks for line in range(hunk.new, hunk.new + hunk.added)}
    moved = [at for at in _places(content, wanted) if added.issuperset(range(at, at + len(wanted)))]
    if moved:
        at = min(moved, key=lambda place: (abs(place - begin), place))
        return LineFate(fate="unchanged", file=path, first=at, last=at + len(wanted) - 1)
    now = "\n".join(content[begin - 1 : end])
    fate: Fate = "gone" if end < begin else "changed"
    loose = [*_places(list(map(_without_space, content)), list(map(_without_space, wanted)))]
    if len(loose) == 1 and any(map(_without_space, wanted)):
        return LineFate(fate="changed", file=path, first=loose[0], last=loose[0] + len(wanted) - 1, now=now)
    return LineFate(fate=fate, now=now)


def _in_new_file(objects: GitObjects, old: TreeId, new: TreeId, wanted: list[str]) -> LineFate:
    created = [each.path for each in objects.changes(old, new) if each.kind == "create"]
    found = [
        (path, at)
        for path in created[:MOST_NEW_FILES]
        if _is_file(objects, new, path)
        for at in _places(_lines_of(objects, new, path), wanted)
    ]
    if len(found) != 1 or not any(map(_without_space, wanted)):
        return LineFate(fate="gone")
    path, at = found[0]
    return LineFate(fate="unchanged", file=path, first=at, last=at + len(wanted) - 1)


def _mapped(hunks: Sequence[LineHunk], line: int, *, at_end: bool) -> int:
    """Return where a line of the old file is in the new one; for a removed line, an end of what replaces it."""
    for hunk in hunks:
        if hunk.holds(line):
            # With nothing in its place, git names the line above.
            begin = hunk.new if hunk.added else hunk.new + 1
            return begin + hunk.added - 1 if at_end else begin
    return line + sum(hunk.added - hunk.removed for hunk in hunks if hunk.is_before(line))


def _hunks(diff: bytes) -> Iterator[LineHunk]:
    for match in _HUNK.finditer(diff):
        old, removed, new, added = (int(each) if each else 1 for each in match.groups())
        yield LineHunk(old, removed, new, added)


def _places(content: list[str], wanted: list[str]) -> Iterator[int]:
    """Return each line at which the wanted lines begin."""
    for at, line in enumerate(content):
        if line == wanted[0] and content[at : at + len(wanted)] == wanted:
            yield at + 1


def _without_space(line: str) -> str:
    return "".join(line.split())


def _is_file(objects: GitObjects, tree: TreeId, path: str) -> bool:
    entry = objects.entry(tree, path)
    return entry is not None and entry.mode in _FILES


def _lines_of(objects: GitObjects, tree: TreeId, path: str) -> list[str]:
    entry = objects.entry(tree, path)
    if entry is None or objects.blob_size(entry.oid) > LARGEST_FILE:
        return []
    lines = objects.blob(entry.oid).decode(errors="replace").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
