"""Python tables: SQLAlchemy, SQLModel, Alembic and Django models."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import (
    Harvest,
    ParsedSource,
    arguments,
    line_of,
    literal,
    text,
)
from aop.forge.scan.file_facts import TableFact

_CALLS = re.compile(rb"\b(create_table|Table)[ \t]*\(")
_COLUMN_CALL = re.compile(r"(?:\w+\.)*(?:Column|mapped_column|deferred)\b")
_DJANGO_FIELD = re.compile(r"models\.(?:\w+Field|ForeignKey|OneToOneField)\b")
_NO_COLUMN = re.compile(r"models\.ManyToManyField\b")


def harvest_class_table(source: ParsedSource, node: Node, found: Harvest) -> None:
    """Gather the table that a class stands for, if it does."""
    bases = text(node.child_by_field_name("superclasses"))
    if not bases or not ("Model" in bases or source.holds(b"__tablename__")):
        return
    body = list(_assignments(node))
    if "SQLModel" in bases and "table=True" in bases.replace(" ", ""):
        _add_model(node, found, "sqlalchemy", _class_name(node).lower(), [name for name, _ in body])
        return
    values = dict(body)
    tablename = values.get("__tablename__")
    if tablename is not None:
        columns = [name for name, value in body if name != "__tablename__" and _is_column(value)]
        _add_model(node, found, "sqlalchemy", literal(tablename.child_by_field_name("right")) or "", columns)
    elif "Model" in bases:
        _harvest_django(node, body, found)


def harvest_table_calls(source: ParsedSource, found: Harvest) -> None:
    """Gather the tables that `Table(...)` of SQLAlchemy and `create_table(...)` of Alembic make."""
    for maker, token_parent in source.tokens(_CALLS):
        call = token_parent if token_parent.type == "call" else token_parent.parent
        if call is None or call.type != "call":
            continue
        plain, _ = arguments(call)
        name = literal(plain[0]) if plain else None
        columns = [literal(arguments(each)[0][0]) for each in plain[1:] if _is_column_call(each)]
        if name and (columns or maker == "create_table"):
            kind = "alembic" if maker == "create_table" else "sqlalchemy"
            found.tables.append(TableFact(line_of(call), name, kind, tuple(each for each in columns if each)))


def _is_column_call(node: Node) -> bool:
    if node.type != "call" or not text(node.child_by_field_name("function")).endswith("Column"):
        return False
    return bool(arguments(node)[0])


def _harvest_django(node: Node, body: list[tuple[str, Node]], found: Harvest) -> None:
    texts = {name: text(value.child_by_field_name("right")) for name, value in body}
    columns = [name for name, right in texts.items() if _DJANGO_FIELD.match(right) and not _NO_COLUMN.match(right)]
    meta = {name: value.child_by_field_name("right") for name, value in _meta_assignments(node)}
    if columns and text(meta.get("abstract")) != "True":
        _add_model(node, found, "django", literal(meta.get("db_table")) or "", columns)


def _add_model(node: Node, found: Harvest, kind: str, name: str, columns: list[str]) -> None:
    found.tables.append(TableFact(line_of(node), name, kind, tuple(columns), _class_name(node)))


def _class_name(node: Node) -> str:
    return text(node.child_by_field_name("name"))


def _is_column(assignment: Node) -> bool:
    if text(assignment.child_by_field_name("type")).startswith("Mapped["):
        right = text(assignment.child_by_field_name("right"))
        return not right.startswith("relationship")
    return bool(_COLUMN_CALL.match(text(assignment.child_by_field_name("right"))))


def _assignments(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the names that a class body assigns or annotates itself, and the assignments."""
    body = node.child_by_field_name("body")
    for statement in body.named_children if body is not None else ():
        if statement.type == "expression_statement" and statement.named_child_count:
            assignment = statement.named_children[0]
            left = assignment.child_by_field_name("left")
            if assignment.type == "assignment" and left is not None and left.type == "identifier":
                yield text(left), assignment


def _meta_assignments(node: Node) -> Iterator[tuple[str, Node]]:
    body = node.child_by_field_name("body")
    for statement in body.named_children if body is not None else ():
        if statement.type == "class_definition" and _class_name(statement) == "Meta":
            yield from _assignments(statement)
