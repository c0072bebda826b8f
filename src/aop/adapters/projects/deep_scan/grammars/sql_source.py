"""SQL and Prisma: the tables that a file makes, found by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource
from aop.forge.scan.file_facts import TableFact

MOST_COLUMNS = 500
_NAME = rb"""(?:[\w$]+|"[^"\n]{1,99}"|`[^`\n]{1,99}`|\[[^\]\n]{1,99}\])"""
CREATE_TABLE = re.compile(
    rb"\bCREATE\s+(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED)\s+)*TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rb"(" + _NAME + rb"(?:\s*\.\s*" + _NAME + rb")?)\s*\(",
    re.IGNORECASE,
)
_COMMENTS = re.compile(rb"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PIECES = re.compile(rb"""'[^']*'|"[^"]*"|`[^`]*`|[(),]""")
_NO_COLUMN = frozenset(
    b"CONSTRAINT PRIMARY FOREIGN UNIQUE CHECK KEY INDEX EXCLUDE LIKE FULLTEXT SPATIAL PERIOD".split()
)
_FIRST = re.compile(rb"\s*(" + _NAME + rb")")
_MODEL = re.compile(rb"^[ \t]*model[ \t]+(\w+)[ \t]*\{([^}]*)\}", re.MULTILINE)
_FIELD = re.compile(rb"^[ \t]*(\w+)[ \t]+(\w+)(\[\])?", re.MULTILINE)
_MAPPED = re.compile(rb'@@map\([ \t]*(?:name[ \t]*:[ \t]*)?"([^"\n]+)"')


def harvest_sql(content: bytes) -> Harvest:
    """Gather the tables of an SQL file."""
    found = Harvest()
    # Comments become spaces: lines stay where they are.
    bare = _COMMENTS.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group()), content)
    found.tables += _created(bare)
    return found


def harvest_embedded(source: ParsedSource, found: Harvest) -> None:
    """Gather the tables that string literals of another language make."""
    small = source.content.lower()
    if b"create" not in small or b"table" not in small:
        return
    for table, place in zip(_created(source.content), CREATE_TABLE.finditer(source.content), strict=True):
        node = source.root.descendant_for_byte_range(place.start(), place.start())
        if node is not None and ("string" in node.type or "template" in node.type):
            found.tables.append(table)


def harvest_prisma(content: bytes) -> Harvest:
    """Gather the models of a Prisma schema; a field whose type is another model is not a column."""
    found = Harvest()
    models = {match.group(1) for match in _MODEL.finditer(content)}
    for match in _MODEL.finditer(content):
        mapped = _MAPPED.search(match.group(2))
        columns = tuple(
            field.group(1).decode()
            for field in _FIELD.finditer(match.group(2))
            if field.group(2) not in models and not field.group(3)
        )
        name = _text(mapped.group(1) if mapped else match.group(1))
        found.tables.append(TableFact(_line(content, match.start(1)), name, "prisma", columns, _text(match.group(1))))
    found.classes = len(models)
    return found


def _created(content: bytes) -> Iterator[TableFact]:
    line, at = 1, 0
    for match in CREATE_TABLE.finditer(content):
        line += content.count(b"\n", at, match.start())
        at = match.start()
        name = ".".join(map(_bare, match.group(1).split(b".")))
        yield TableFact(line, name, "sql", tuple(_columns(content, match.end())))


def _columns(content: bytes, begin: int) -> Iterator[str]:
    """Yield the names of the columns of a list that begins after its parenthesis."""
    depth, start, count = 1, begin, 0
    for piece in _PIECES.finditer(content, begin):
        sign = piece.group()
        depth += (sign == b"(") - (sign == b")")
        if depth == 0 or (depth == 1 and sign == b","):
            first = _FIRST.match(content, start, piece.start())
            if first is not None and first.group(1).upper() not in _NO_COLUMN:
                yield _bare(first.group(1))
            start, count = piece.end(), count + 1
        if depth == 0 or count > MOST_COLUMNS:
            return


def _bare(name: bytes) -> str:
    return _text(name.strip().strip(b'"`[]'))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1
