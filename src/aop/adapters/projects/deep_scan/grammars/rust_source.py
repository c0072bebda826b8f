"""Rust sources: uses, modules, functions, types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, text
from aop.forge.scan.file_facts import ImportFact

_KEYWORDS = re.compile(rb"\b(use|mod|fn|struct|enum|trait|crate)\b")
_TYPES = ("struct_item", "enum_item", "trait_item", "union_item")


def harvest(source: ParsedSource) -> Harvest:
    """Gather the facts of a Rust file."""
    found = Harvest()
    for word, node in source.tokens(_KEYWORDS):
        if node.type == "use_declaration" and word == "use":
            found.imports += [ImportFact(line_of(node), each) for each in _uses(node)]
        elif node.type == "mod_item" and node.child_by_field_name("body") is None:
            found.imports.append(ImportFact(line_of(node), f"self::{text(node.child_by_field_name('name'))}"))
        elif node.type == "extern_crate_declaration":
            found.imports.append(ImportFact(line_of(node), text(node.child_by_field_name("name"))))
        elif node.type == "function_item":
            found.add_function(node)
        elif node.type in _TYPES:
            found.classes += 1
    return found


def _uses(node: Node) -> Iterator[str]:
    """Yield the paths of a use; of a list in braces, the first level."""
    argument = node.child_by_field_name("argument")
    if argument is None:
        return
    if argument.type == "scoped_use_list":
        path, names = text(argument.child_by_field_name("path")), argument.child_by_field_name("list")
        for child in names.named_children if names is not None else ():
            yield f"{path}::{_plain(child)}" if path else _plain(child)
    elif argument.type == "use_list":
        yield from map(_plain, argument.named_children)
    else:
        yield _plain(argument)


def _plain(node: Node) -> str:
    """Return the path of one use, without its alias and without what braces hold."""
    inner = node.child_by_field_name("path") if node.type in ("use_as_clause", "scoped_use_list") else node
    return text(inner).removesuffix("::*").replace(" ", "")
