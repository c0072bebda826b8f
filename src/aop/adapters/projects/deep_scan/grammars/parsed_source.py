"""Parsed source: a syntax tree, asked at the places that patterns find.

A walk over every node would take longer than the parser. A pattern finds the few places that may matter; the tree then
says whether there is code, or a comment that looks like it. No function here calls itself: sources can be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from aop.forge.scan.file_facts import (
    FunctionFact,
    ImportFact,
    MountFact,
    RouteFact,
    SourceFacts,
    TableFact,
)

LONG_FUNCTION = 60
"""From this many lines on a function is named as long."""
MOST_OF_A_KIND = 2_000
"""Facts of one kind that one file can add; more come only from generated code."""
LONGEST_TEXT = 200

_TODO = re.compile(rb"\b(?:TODO|FIXME)\b")
_DEEPEST_ERROR = 500


class Harvest:
    """The facts of a file while they are gathered."""

    def __init__(self) -> None:
        self.functions = 0
        self.classes = 0
        self.imports: list[ImportFact] = []
        self.routes: list[RouteFact] = []
        self.unread_routes: list[int] = []
        self.mounts: list[MountFact] = []
        self.tables: list[TableFact] = []
        self.long_functions: list[FunctionFact] = []

    def add_function(self, node: Node, *, named_by: Node | None = None) -> None:
        """Count a function, and name it if it is long; what it is assigned to names it if it has no name."""
        self.functions += 1
        begin = node.start_point.row
        lines = node.end_point.row - begin + 1
        if lines >= LONG_FUNCTION:
            owner = named_by or node
            name = text(owner.child_by_field_name("name") or owner.child_by_field_name("key"))
            self.long_functions.append(FunctionFact(begin + 1, name, lines))

    def facts(self, content: bytes, *, error_line: int = 0) -> SourceFacts:
        """Return what was gathered."""
        return SourceFacts(
            lines=count_lines(content),
            functions=self.functions,
            classes=self.classes,
            imports=tuple(dict.fromkeys(self.imports[:MOST_OF_A_KIND])),
            routes=tuple(self.routes[:MOST_OF_A_KIND]),
            mounts=tuple(self.mounts[:MOST_OF_A_KIND]),
            tables=tuple(self.tables[:MOST_OF_A_KIND]),
            long_functions=tuple(self.long_functions[:MOST_OF_A_KIND]),
            todos=todo_lines(content),
            error_line=error_line,
            unread_routes=tuple(dict.fromkeys(self.unread_routes[:MOST_OF_A_KIND])),
        )


class ParsedSource:
    """One file: its bytes, and the root of its tree."""

    def __init__(self, content: bytes, root: Node) -> None:
        self.content = content
        self.root = root

    def tokens(self, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, Node]]:
        """Yield the first group of each match, and the node that holds the token there."""
        for match in pattern.finditer(self.content):
            node = self._holder_of(match.start(1))
            if node is not None:
                yield match.group(1).decode("ascii", "replace"), node

    def line_tokens(self, pattern: re.Pattern[bytes]) -> Iterator[Node]:
        """Yield the nodes of a pattern that begins with the end of the line before.

        Such a pattern is looked for ten times as fast as one that begins with `^`.
        """
        for match in pattern.finditer(b"\n" + self.content):
            node = self._holder_of(match.start(1) - 1)
            if node is not None:
                yield node

    def holds(self, *words: bytes) -> bool:
        """Tell whether the file holds one of these words, which takes next to no time."""
        return any(word in self.content for word in words)

    def _holder_of(self, place: int) -> Node | None:
        token = self.root.descendant_for_byte_range(place, place)
        return token.parent if token is not None else None

    def error_line(self) -> int:
        """Return the first line that does not parse; 0 if all do."""
        node = self.root
        for _ in range(_DEEPEST_ERROR):
            if node.is_error or node.is_missing or not node.has_error:
                break
            within = next((child for child in node.children if child.has_error or child.is_missing), None)
            if within is None:
                break
            node = within
        return line_of(node) if self.root.has_error else 0


def line_of(node: Node) -> int:
    """Return the line that a node begins on, from 1."""
    return node.start_point.row + 1


def text(node: Node | None) -> str:
    """Return the source of a node, cut where it is long; empty for none."""
    if node is None or node.text is None:
        return ""
    return node.text[: LONGEST_TEXT * 4].decode("utf-8", "replace")[:LONGEST_TEXT]


def literal(node: Node | None) -> str | None:
    """Return the value of a plain string literal; None for anything that is computed."""
    if node is None or "string" not in node.type:
        return None
    parts = [child for child in node.named_children if child.type not in ("string_start", "string_end")]
    if any(child.type not in ("string_content", "string_fragment", "escape_sequence") for child in parts):
        return None
    if parts:
        return "".join(map(text, parts))
    return text(node).strip("rRbBuU").strip("\"'`")


def arguments(call: Node | None) -> tuple[list[Node], dict[str, Node]]:
    """Return the plain and the named arguments of a call in Python."""
    given = call.child_by_field_name("arguments") if call is not None else None
    plain: list[Node] = []
    named: dict[str, Node] = {}
    for child in given.named_children if given is not None else ():
        if child.type == "keyword_argument":
            value = child.child_by_field_name("value")
            if value is not None:
                named[text(child.child_by_field_name("name"))] = value
        elif child.type != "comment":
            plain.append(child)
    return plain, named


def count_lines(content: bytes) -> int:
    """Return the number of lines; a last one without an end counts too."""
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def todo_lines(content: bytes) -> tuple[int, ...]:
    """Return the lines with a note that something is to be done."""
    if b"TODO" not in content and b"FIXME" not in content:
        return ()
    found: list[int] = []
    line, at = 1, 0
    for match in _TODO.finditer(content):
        line += content.count(b"\n", at, match.start())
        at = match.start()
        found.append(line)
    return tuple(dict.fromkeys(found[:MOST_OF_A_KIND]))
