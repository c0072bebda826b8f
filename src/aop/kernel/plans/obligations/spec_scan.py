"""Spec scan: the obligations of a spec, found line by line without a model.

The rule (docs/obligations.md) in short: every list item; every sentence and every heading with `must` or `shall`; below
a heading such as "Acceptance criteria", every paragraph. Nothing from front matter, code, comments, or a section that
the author calls out of scope.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Literal

from msgspec import Struct

from aop.kernel.record.documents.obligations import MOST_OBLIGATIONS, FoundObligation

LONGEST_OBLIGATION = 400

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*_=])(?:[ \t]*\1)*[ \t]*$")
_OBLIGES = re.compile(r"\b(?:must|shall)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_ACCEPTANCE = frozenset({"acceptance", "acceptance criteria", "definition of done", "done when", "requirements"})
_OUT_OF_SCOPE = frozenset({"non goals", "non-goals", "not in scope", "out of scope"})


class SpecScan(Struct, frozen=True, kw_only=True):
    """The obligations of a spec."""

    found: tuple[FoundObligation, ...] = ()
    left_out: int = 0
    """The number beyond the limit."""


class _Block(Struct, kw_only=True):
    """A heading, a list item or a paragraph, with its lines."""

    kind: Literal["heading", "item", "paragraph"]
    line: int
    lines: list[str]
    depth: int = 0
    """Of a heading its level, of an item its indentation."""

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.lines).split())


def scan_spec(spec: str) -> SpecScan:
    """Return the obligations of a spec, in the order of its lines."""
    found = [each for each in _obligations_in(list(_blocks(spec))) if each.text]
    return SpecScan(found=tuple(found[:MOST_OBLIGATIONS]), left_out=max(0, len(found) - MOST_OBLIGATIONS))


def _obligations_in(blocks: list[_Block]) -> Iterator[FoundObligation]:
    section, out_of_scope, acceptance = "", 0, 0
    for block, after in pairwise([*blocks, None]):
        if block is None:
            return
        if block.kind == "heading":
            section = _clip(block.text)
            out_of_scope = _ruling_level(block, out_of_scope, _OUT_OF_SCOPE)
            acceptance = _ruling_level(block, acceptance, _ACCEPTANCE)
        if not out_of_scope:
            for line, text in _obliging_texts(block, after, demanded=bool(acceptance)):
                yield FoundObligation(line=line, section=section, text=_clip(text))


def _ruling_level(heading: _Block, level: int, names: frozenset[str]) -> int:
    """Return the level of the enclosing heading with one of these names; 0 for none."""
    if level and heading.depth > level:
        return level
    return heading.depth if heading.text.strip(" :*_`#").casefold() in names else 0


def _obliging_texts(block: _Block, after: _Block | None, *, demanded: bool) -> Iterator[tuple[int, str]]:
    match block.kind:
        case "heading":
            if _OBLIGES.search(block.text):
                yield block.line, block.text
        case "item":
            # `The export has:` only introduces the items below it.
            is_above = after is not None and after.kind == "item" and after.depth > block.depth
            if not (block.text.endswith(":") and is_above):
                yield block.line, block.text
        case "paragraph" if demanded:
            yield block.line, block.text
        case "paragraph":
            yield from ((line, text) for line, text in _sentences(block) if _OBLIGES.search(text))


def _sentences(block: _Block) -> Iterator[tuple[int, str]]:
    """Return the sentences of a paragraph, with the line that each begins in."""
    whole = "\n".join(block.lines)
    line_starts = [0, *accumulate(len(line) + 1 for line in block.lines)]
    starts = [0, *(end.end() for end in _SENTENCE_END.finditer(whole))]
    for start, end in pairwise([*starts, len(whole)]):
        yield block.line + bisect_right(line_starts, start) - 1, " ".join(whole[start:end].split())


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_OBLIGATION else text[: LONGEST_OBLIGATION - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _blocks(spec: str) -> Iterator[_Block]:
    block: _Block | None = None
    for number, line in _prose(spec):
        begun = _block_at(number, line)
        if begun is None and line.strip() and block is not None and block.kind != "heading":
            block.lines.append(line.strip())
            continue
        if block is not None:
            yield block
        if begun is None and line.strip():
            begun = _Block(kind="paragraph", line=number, lines=[line.strip()])
        block = begun
    if block is not None:
        yield block


def _block_at(number: int, line: str) -> _Block | None:
    """Return the heading or item that begins in a line, if any."""
    heading = _HEADING.match(line)
    if heading:
        text = (heading[2] or "").rstrip("# \t")
        return _Block(kind="heading", line=number, lines=[text], depth=len(heading[1]))
    item = _ITEM.match(line)
    if item:
        return _Block(kind="item", line=number, lines=[item[2].strip()], depth=len(item[1].expandtabs(4)))
    return None


def _prose(spec: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of text, with empty ones in place of code and comments."""
    fence, comment = "", False
    for number, line in _after_front_matter(spec.splitlines()):
        opening = _FENCE.match(line)
        if fence:
            fence = "" if opening and opening[1].startswith(fence) else fence
            yield number, ""
        elif opening and not comment:
            fence = opening[1]
            yield number, ""
        else:
            text, comment = _uncommented(line, inside=comment)
            yield number, "" if _RULE.match(text) else text.lstrip("> ") if text.lstrip().startswith(">") else text


def _after_front_matter(lines: list[str]) -> Iterable[tuple[int, str]]:
    numbered = list(enumerate(lines, start=1))
    if lines[:1] != ["---"]:
        return numbered
    end = next((number for number, line in numbered[1:] if line.rstrip() in ("---", "...")), 0)
    return numbered[end:]


def _uncommented(line: str, *, inside: bool) -> tuple[str, bool]:
    """Return a line without comments, and whether it ends inside one."""
    text = ""
    while line:
        before, mark, line = line.partition("-->" if inside else "<!--")
        if not inside:
            text += before
        if mark:
            inside = not inside
    return text, inside
