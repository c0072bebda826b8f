"""JavaScript and TypeScript sources: imports, functions, classes, entities."""

from __future__ import annotations

import re

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.javascript_routes import harvest_routes
from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, literal, text
from aop.forge.scan.file_facts import ImportFact, TableFact

_KEYWORDS = re.compile(rb"\b(import|export|require|function|class)\b")
_ARROWS = re.compile(rb"(=>)")
_ENTITIES = re.compile(rb"(@)Entity\b")
_COLUMNS = re.compile(rb"(@)(?:\w*Column|ManyToOne|OneToOne|JoinColumn)\b")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FUNCTIONS = ("function_declaration", "generator_function_declaration", "function_expression", "function")
_CLASSES = ("class_declaration", "class", "abstract_class_declaration")
_NAMED_BY = ("variable_declarator", "pair", "public_field_definition", "field_definition")


def harvest(source: ParsedSource) -> Harvest:
    """Gather the facts of a JavaScript or TypeScript file."""
    found = Harvest()
    for word, node in source.tokens(_KEYWORDS):
        match word:
            case "import" | "export":
                _harvest_import(node, found)
            case "require":
                _harvest_require(node, found)
            case "function" if node.type in _FUNCTIONS:
                found.add_function(node)
            case "class" if node.type in _CLASSES:
                _harvest_class(node, found)
    _harvest_arrows(source, found)
    harvest_routes(source, found)
    if b"@Entity" in source.content:
        _harvest_entities(source, found)
    return found


def _harvest_arrows(source: ParsedSource, found: Harvest) -> None:
    for _, node in source.tokens(_ARROWS):
        owner = node.parent if node.type == "arrow_function" else None
        if owner is not None and owner.type in _NAMED_BY:
            found.add_function(node, named_by=owner)


def _harvest_import(node: Node, found: Harvest) -> None:
    if node.type in ("import_statement", "export_statement"):
        target = literal(node.child_by_field_name("source")) or _required(node)
    elif node.type == "import" and node.parent is not None:
        target = _first_argument(node.parent)
    else:
        target = _first_argument(node)
    if target:
        found.imports.append(ImportFact(line_of(node), target, _local_names(node), _is_late(node)))


def _is_late(node: Node) -> bool:
    """Tell whether an import is carried out later, or only for its types."""
    return node.type == "import" or text(node).startswith(("import type ", "export type "))


def _local_names(node: Node) -> tuple[str, ...]:
    """Return the names that a statement gives to what it imports."""
    clause = next((child for child in node.named_children if child.type == "import_clause"), None)
    return tuple(_NAME.findall(text(clause)))


def _required(node: Node) -> str | None:
    """Return the module of `import x = require("y")`."""
    clause = next((child for child in node.named_children if child.type == "import_require_clause"), None)
    return literal(clause.child_by_field_name("source")) if clause is not None else None


def _harvest_require(node: Node, found: Harvest) -> None:
    target = _first_argument(node)
    if target and text(node.child_by_field_name("function")) == "require":
        holder = node.parent
        named = text(holder.child_by_field_name("name")) if holder is not None else ""
        found.imports.append(ImportFact(line_of(node), target, tuple(_NAME.findall(named))))


def _first_argument(call: Node) -> str | None:
    if call.type != "call_expression":
        return None
    given = call.child_by_field_name("arguments")
    return literal(given.named_children[0]) if given is not None and given.named_child_count else None


def _harvest_class(node: Node, found: Harvest) -> None:
    found.classes += 1
    body = node.child_by_field_name("body")
    for child in body.named_children if body is not None else ():
        if child.type == "method_definition":
            found.add_function(child)


def _harvest_entities(source: ParsedSource, found: Harvest) -> None:
    columns: dict[int, list[str]] = {}
    for _, decorator in source.tokens(_COLUMNS):
        owner = _enclosing_class(decorator)
        field = decorator.parent
        if owner is not None and field is not None:
            columns.setdefault(owner.start_byte, []).append(text(field.child_by_field_name("name")))
    for _, decorator in source.tokens(_ENTITIES):
        declaration = _decorated_class(decorator)
        if declaration is not None:
            model = text(declaration.child_by_field_name("name"))
            name = _table_name(decorator) or _CAPITAL.sub("_", model).lower()
            fields = tuple(dict.fromkeys(filter(None, columns.get(declaration.start_byte, ()))))
            found.tables.append(TableFact(line_of(declaration), name, "typeorm", fields, model))


def _table_name(decorator: Node) -> str | None:
    call = decorator.named_children[0] if decorator.named_child_count else None
    if call is None:
        return None
    given = call.child_by_field_name("arguments")
    for child in given.named_children if given is not None else ():
        pairs = child.named_children if child.type == "object" else ()
        named = [pair.child_by_field_name("value") for pair in pairs if text(pair).startswith("name")]
        return literal(named[0] if named else child)
    return None


def _decorated_class(decorator: Node) -> Node | None:
    owner = decorator.parent
    if owner is None or owner.type in _CLASSES:
        return owner
    return next((child for child in owner.named_children if child.type in _CLASSES), None)


def _enclosing_class(node: Node) -> Node | None:
    above = node.parent
    for _ in range(4):
        if above is None or above.type in _CLASSES:
            return above
        above = above.parent
    return None
