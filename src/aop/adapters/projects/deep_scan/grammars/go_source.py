"""Go sources: imports, functions, structs."""

from __future__ import annotations

import re

from aop.adapters.projects.deep_scan.grammars.parsed_source import Harvest, ParsedSource, line_of, text
from aop.forge.scan.file_facts import ImportFact

_KEYWORDS = re.compile(rb"\b(import|func|struct|interface)\b")
_FUNCTIONS = ("function_declaration", "method_declaration")


def harvest(source: ParsedSource) -> Harvest:
    """Gather the facts of a Go file."""
    found = Harvest()
    for _, node in source.tokens(_KEYWORDS):
        if node.type == "import_declaration":
            specs = [
                spec
                for child in node.named_children
                for spec in (child.named_children if child.type == "import_spec_list" else [child])
                if spec.type == "import_spec"
            ]
            found.imports += [
                ImportFact(line_of(spec), text(spec.child_by_field_name("path")).strip('"`')) for spec in specs
            ]
        elif node.type in _FUNCTIONS:
            found.add_function(node)
        elif node.type in ("struct_type", "interface_type"):
            found.classes += 1
    return found
