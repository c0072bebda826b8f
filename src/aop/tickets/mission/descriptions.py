"""Descriptions of tickets as plain text with fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from aop.core.errors import Json, MissionMalformed

MAX_CHARS = 200_000
MAX_DEPTH = 60

# Special spaces and invisible characters that the editors of trackers insert.
_SPACES = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": None, "\u2060": None, "\ufeff": None})
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<label>[^`\s]*)[^`]*")
_CODE = re.compile(r"\s*\{code(?::(?P<label>[^}|\s]*)[^}]*)?\}[ \t]*(?P<rest>.*)")
_CODE_END = "{code}"
_LINES_OF_THEIR_OWN = frozenset(
    ["blockquote", "heading", "listItem", "mediaSingle", "panel", "paragraph", "rule", "tableRow"]
)


class Block(Struct, frozen=True, kw_only=True):
    """A code block in a description."""

    label: str
    text: str
    line: int
    """The line number of its first line in the description, from 1."""


def plain_description(description: Json) -> str:
    """Return a description as text, from wiki text, Markdown or an Atlassian document. Raises: MissionMalformed."""
    match description:
        case None:
            return ""
        case str():
            text = description
        case Mapping():
            text = "".join(_document_text(description, 0))
        case _:
            raise MissionMalformed("The description is neither text nor an Atlassian document.")
    if len(text) > MAX_CHARS:
        raise MissionMalformed(
            f"The description is longer than {MAX_CHARS} characters.", hint="Move the long part into an attachment."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_SPACES)


def blocks_in(text: str) -> tuple[Block, ...]:
    """Return all code blocks; one that is not closed reaches to the end."""
    return tuple(_blocks(text.split("\n")))


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        if fenced := _FENCE.fullmatch(lines[at]):
            end = _end_of_fence(lines, at + 1, fenced["fence"])
            yield Block(label=fenced["label"].lower(), text="\n".join(lines[at + 1 : end]), line=at + 2)
            at = end
        elif code := _CODE.fullmatch(lines[at]):
            inside, end = _until_code_ends([code["rest"], *lines[at + 1 :]])
            yield Block(label=(code["label"] or "").lower(), text=inside, line=at + 1)
            at += end
        at += 1


def _end_of_fence(lines: Sequence[str], start: int, fence: str) -> int:
    closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*")
    return next((at for at in range(start, len(lines)) if closing.fullmatch(lines[at])), len(lines))


def _until_code_ends(lines: Sequence[str]) -> tuple[str, int]:
    """Return the text before `{code}`, and the index of its line."""
    for at, line in enumerate(lines):
        before, found, _after = line.partition(_CODE_END)
        if found:
            return "\n".join([*lines[:at], before]), at
    return "\n".join(lines), len(lines)


def _document_text(node: Json, depth: int) -> Iterator[str]:
    """Return the text of an Atlassian document; its code blocks get fences that their text cannot close."""
    if depth > MAX_DEPTH:
        raise MissionMalformed(f"The description is nested more than {MAX_DEPTH} levels deep.")
    if not isinstance(node, Mapping):
        raise MissionMalformed("The description has a part that does not belong to a document.")
    kind, children = node.get("type"), node.get("content") or ()
    if isinstance(children, str) or not isinstance(children, Sequence):
        raise MissionMalformed("The description has a part whose content is not a list.")
    inside = "".join(text for child in children for text in _document_text(child, depth + 1))
    if kind == "codeBlock":
        yield _fenced(inside, _attribute(node, "language"))
    elif kind == "hardBreak":
        yield "\n"
    else:
        text = node.get("text")
        # A code block must begin a line.
        yield "- " if kind == "listItem" and not inside.startswith("`") else ""
        yield (text if isinstance(text, str) else "") + inside
        if kind in _LINES_OF_THEIR_OWN:
            yield "\n"


def _fenced(text: str, label: str) -> str:
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{label}\n{text}\n{fence}\n"


def _attribute(node: Mapping[str, Json], name: str) -> str:
    attributes = node.get("attrs")
    value = attributes.get(name) if isinstance(attributes, Mapping) else None
    return re.sub(r"[^\w.+-]", "", value) if isinstance(value, str) else ""
