"""Markdown: headings, sections, list items; fenced code has no structure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

DEEPEST = 6
_HEADING = re.compile(r"(#{1,6}) +(\S.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r" *(?:[-*+]|[0-9]{1,3}[.)]) +(\S.*)")


class Section(Struct, frozen=True, kw_only=True):
    """A heading with all the lines up to the next heading of its level or above."""

    title: str
    level: int
    line: int
    """The line of the heading, from 1."""
    end: int
    """The last line of the section, from 1."""
    own: tuple[str, ...]
    """The lines up to the next heading of any level."""


def sections_of(text: str) -> tuple[Section, ...]:
    """Return the sections of a text, in order; a heading inside a fence is not one."""
    lines = text.split("\n")
    found: list[Section] = []
    # From the last heading to the first: the nearest heading after this one, of each level.
    nearest = [len(lines) + 1] * (DEEPEST + 1)
    following = len(lines) + 1
    for line, level, title in reversed(list(_headings(lines))):
        end = min(nearest[1 : level + 1]) - 1
        own = tuple(lines[line : following - 1])
        found.append(Section(title=title, level=level, line=line, end=end, own=own))
        nearest[level] = following = line
    return tuple(reversed(found))


def items_of(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the items of the lists in these lines."""
    return tuple(match.group(1).strip() for line in lines if (match := _ITEM.fullmatch(line.rstrip())))


def plain_title(title: str) -> str:
    """Return a heading as it is compared: without marks and in small letters."""
    return re.sub(r"[`*_]|^[0-9]+[.)] *", "", title).strip(" :").casefold()


def fenced_blocks(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return language and text of each fenced block in these lines."""
    blocks: list[tuple[str, str]] = []
    fence = language = ""
    body: list[str] = []
    for line in lines:
        mark = _FENCE.match(line)
        if not fence and mark:
            fence, language, body = mark.group(1), line.strip().strip("`~").strip(), []
        elif fence and _closes(line, fence):
            blocks.append((language, "\n".join(body) + "\n"))
            fence = ""
        elif fence:
            body.append(line)
    return tuple(blocks)


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    fence = ""
    for number, line in enumerate(lines, start=1):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif mark:
            fence = mark.group(1)
        elif heading := _HEADING.fullmatch(line):
            yield number, len(heading.group(1)), _without_closing_marks(heading.group(2))


def _without_closing_marks(title: str) -> str:
    # Not by a pattern: one with three repetitions takes minutes for a long line of spaces.
    bare = title.rstrip(" ")
    opened = bare.rstrip("#")
    return opened.rstrip(" ") if opened.endswith(" ") else bare


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}
