"""Java sources: imports, methods, classes, Spring routes, JPA entities."""

from __future__ import annotations

import re

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, literal, text
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN, ImportFact, RouteFact, TableFact, path_below

_KEYWORDS = re.compile(rb"\b(import|class|interface|enum|record)\b")
_MAPPINGS = re.compile(rb"(@)(?:Get|Post|Put|Patch|Delete|Request)Mapping\b")
_ENTITIES = re.compile(rb"(@)Entity\b")
_METHOD = re.compile(r"RequestMethod\.(\w+)|\b(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\b")
_REGULAR = re.compile(r"\{(\w+):[^{}]*\}")
_TABLE = re.compile(r'@Table\s*\((?:[^()]*?\bname\s*=\s*)?"([^"]+)"')
_NO_COLUMN = re.compile(r"\bstatic\b|@Transient")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLASSES = ("class_declaration", "interface_declaration", "enum_declaration", "record_declaration")
_METHODS = ("method_declaration", "constructor_declaration")


def harvest(source: ParsedSource) -> Harvest:
    """Gather the facts of a Java file."""
    found = Harvest()
    for word, node in source.tokens(_KEYWORDS):
        if word == "import" and node.type == "import_declaration":
            target = text(node).removeprefix("import").strip().removeprefix("static ").rstrip("; \n")
            found.imports.append(ImportFact(line_of(node), target.replace(" ", "")))
        elif node.type in _CLASSES:
            _harvest_class(node, found)
    if b"Mapping" in source.content:
        _harvest_routes(source, found)
    for _, annotation in source.tokens(_ENTITIES):
        owner = _owner(annotation)
        if owner is not None and owner.type in _CLASSES:
            _harvest_entity(owner, found)
    return found


def _harvest_class(node: Node, found: Harvest) -> None:
    found.classes += 1
    body = node.child_by_field_name("body")
    for child in body.named_children if body is not None else ():
        if child.type in _METHODS:
            found.add_function(child)


def _harvest_routes(source: ParsedSource, found: Harvest) -> None:
    prefixes: dict[int, list[str]] = {}
    for _, annotation in source.tokens(_MAPPINGS):
        owner = _owner(annotation)
        if owner is None:
            continue
        paths = _paths(annotation)
        if owner.type in _CLASSES:
            prefixes[owner.start_byte] = paths
            continue
        body = owner.parent
        holder = body.parent if body is not None else None
        for prefix in prefixes.get(holder.start_byte if holder is not None else -1, [""]):
            for path in paths:
                shown = (
                    UNKNOWN if UNKNOWN in (prefix, path) else _slashed(path_below(prefix, _REGULAR.sub(r"{\1}", path)))
                )
                found.routes += [
                    RouteFact(line_of(annotation), method, shown, "spring") for method in _route_methods(annotation)
                ]


def _slashed(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def _owner(annotation: Node) -> Node | None:
    """Return the class or method that an annotation stands before."""
    modifiers = annotation.parent if annotation.type in ("annotation", "marker_annotation") else None
    return modifiers.parent if modifiers is not None else None


def _route_methods(annotation: Node) -> list[str]:
    name = text(annotation.child_by_field_name("name"))
    if name != "RequestMapping":
        return [name.removesuffix("Mapping").upper()]
    given = text(annotation.child_by_field_name("arguments"))
    return [one or other for one, other in _METHOD.findall(given)] or [ANY_METHOD]


def _paths(annotation: Node) -> list[str]:
    """Return the paths of a mapping; one that is computed is unknown."""
    given = annotation.child_by_field_name("arguments")
    for child in given.named_children if given is not None else ():
        value: Node | None = child
        if child.type == "element_value_pair":
            if text(child.child_by_field_name("key")) not in ("value", "path"):
                continue
            value = child.child_by_field_name("value")
        if value is None:
            continue
        values = value.named_children if value.type == "element_value_array_initializer" else [value]
        return [literal(each) if literal(each) is not None else UNKNOWN for each in values]  # type: ignore[misc]
    return [""]


def _harvest_entity(owner: Node, found: Harvest) -> None:
    model = text(owner.child_by_field_name("name"))
    head = owner.text[: owner.text.find(b"{")].decode("utf-8", "replace") if owner.text else ""
    named = _TABLE.search(head)
    body = owner.child_by_field_name("body")
    columns = [
        text((child.child_by_field_name("declarator") or child).child_by_field_name("name"))
        for child in (body.named_children if body is not None else ())
        if child.type == "field_declaration" and not _NO_COLUMN.search(text(child))
    ]
    name = named.group(1) if named else _CAPITAL.sub("_", model).lower()
    found.tables.append(TableFact(line_of(owner), name, "jpa", tuple(filter(None, columns)), model))
