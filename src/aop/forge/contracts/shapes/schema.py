"""Schema: the contract of the tables, each a heading with a table of its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from aop.forge.contracts.shapes.markdown import Section, plain_title, sections_of
from aop.forge.contracts.shapes.problems import Problems, quoted

NO_TABLES = "no tables"
"""A heading that says that the project stores nothing; below it stands why."""

_FIRST_CELLS = frozenset({"column", "field", "name"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,126}")
_RULE = re.compile(r":?-+:?")
_REFERENCE = re.compile(r"references\s+`?([A-Za-z_][\w.]*)", re.IGNORECASE)


class SchemaColumn(Struct, frozen=True, kw_only=True):
    """One column of a table."""

    name: str
    type: str
    rules: str
    line: int


class SchemaTable(Struct, frozen=True, kw_only=True):
    """One table."""

    name: str
    columns: tuple[SchemaColumn, ...]
    line: int

    def references(self) -> tuple[str, ...]:
        """Return the tables that its columns refer to."""
        return tuple(dict.fromkeys(name for each in self.columns for name in _REFERENCE.findall(each.rules)))


class Schema(Struct, frozen=True, kw_only=True):
    """The tables of a project."""

    tables: tuple[SchemaTable, ...]


def read_schema(text: str, problems: Problems) -> Schema:
    """Read the tables; a project without any says so below a heading `## No tables`."""
    sections = sections_of(text)
    tables = [table for each in sections if (table := _table(each, problems)) is not None]
    names = [table.name.casefold() for table in tables]
    for name in sorted({each for each in names if names.count(each) > 1}):
        problems.add(f"The table {quoted(name)} is there {names.count(name)} times.")
    says_none = any(plain_title(each.title) == NO_TABLES for each in sections)
    if not tables and not says_none:
        problems.add(
            "It has no table: a heading with its name, and below it a Markdown table that begins with `Column`."
        )
    return Schema(tables=tuple(tables))


def _table(section: Section, problems: Problems) -> SchemaTable | None:
    rows = [
        (section.line + at, _cells(line)) for at, line in enumerate(section.own, start=1) if line.strip()[:1] == "|"
    ]
    if not rows or plain_title(rows[0][1][0]) not in _FIRST_CELLS:
        return None
    name = re.sub(r"^table:? +", "", section.title.replace("`", "").strip(), flags=re.IGNORECASE).strip()
    if not _NAME.fullmatch(name):
        problems.add(f"Line {section.line}: {quoted(section.title)} is not the name of a table.")
        return None
    columns = [_column(cells, line) for line, cells in rows[1:] if not all(_RULE.fullmatch(cell) for cell in cells)]
    _check_columns(name, columns, problems)
    return SchemaTable(name=name, columns=tuple(columns), line=section.line)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _column(cells: Sequence[str], line: int) -> SchemaColumn:
    name, kind, *rules = [*cells, "", ""]
    return SchemaColumn(
        name=name.replace("`", "").replace("*", ""),
        type=kind.replace("`", ""),
        rules=" ".join(rules).strip(),
        line=line,
    )


def _check_columns(table: str, columns: Sequence[SchemaColumn], problems: Problems) -> None:
    if not columns:
        problems.add(f"The table {quoted(table)} has no columns.")
    names = [column.name.casefold() for column in columns]
    for column in columns:
        if not _NAME.fullmatch(column.name):
            problems.add(f"Line {column.line}: {quoted(column.name)} is not the name of a column.")
        elif not column.type:
            problems.add(f"The column `{column.name}` of the table {quoted(table)} has no type.")
    for name in sorted({each for each in names if names.count(each) > 1}):
        problems.add(f"The table {quoted(table)} has the column {quoted(name)} {names.count(name)} times.")
