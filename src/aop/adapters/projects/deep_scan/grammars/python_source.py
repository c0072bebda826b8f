"""Python sources: imports, functions, classes."""

from __future__ import annotations

import re

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, text
from aop.adapters.projects.deep_scan.grammars.python_routes import harvest_routes
from aop.adapters.projects.deep_scan.grammars.python_tables import harvest_class_table, harvest_table_calls
from aop.forge.scan.file_facts import ImportFact

_STATEMENTS = re.compile(rb"\n[ \t]*(?:async[ \t]+)?(def|class|import|from)\b")
_NAMES = rb"(\w{1,200}(?:[ ]as[ ]\w{1,99})?(?:,\s*\w{1,200}(?:[ ]as[ ]\w{1,99})?)*)"
_PLAIN_FROM = re.compile(rb"from[ ]([\w.]{1,200})[ ]import[ ](?:" + _NAMES + rb"|\(\s*" + _NAMES + rb",?\s*\))")


def harvest(source: ParsedSource) -> Harvest:
    """Gather the facts of a Python file."""
    found = Harvest()
    for node in source.line_tokens(_STATEMENTS):
        match node.type:
            case "function_definition":
                found.add_function(node)
            case "class_definition":
                found.classes += 1
                harvest_class_table(source, node, found)
            case "import_statement":
                _harvest_import(node, found)
            case "import_from_statement":
                _harvest_from(source, node, found)
    harvest_routes(source, found)
    if source.holds(b"create_table", b"Table"):
        harvest_table_calls(source, found)
    return found


def _harvest_import(node: Node, found: Harvest) -> None:
    for name in node.children_by_field_name("name"):
        module = name.child_by_field_name("name") if name.type == "aliased_import" else name
        names = (text(name),) if name.type == "aliased_import" else ()
        found.imports.append(ImportFact(line_of(node), text(module), names, node.start_point.column > 0))


def _harvest_from(source: ParsedSource, node: Node, found: Harvest) -> None:
    begin = node.start_point
    # As nearly everybody writes it, the statement can be read without a node for each name.
    plain = _PLAIN_FROM.fullmatch(source.content, node.start_byte, node.end_byte)
    if plain is not None and not node.has_error:
        module = plain[1].decode("ascii")
        names = tuple(name.strip() for name in (plain[2] or plain[3]).decode("ascii").split(","))
    else:
        module = text(node.child_by_field_name("module_name"))
        names = tuple(text(name) for name in node.children_by_field_name("name"))
    if module:
        found.imports.append(ImportFact(begin.row + 1, module, names, begin.column > 0))
