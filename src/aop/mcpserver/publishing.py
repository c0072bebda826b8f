"""How a row of the catalogue looks to an MCP client: its names, its schemas, its hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations

from aop.core.errors import Fault
from aop.core.ids import OPERATION_ID_PATTERN
from aop.kernel.calls import Tool

LONGEST_NAME = 64
OPERATION_ID = "operation_id"

Schema = dict[str, Any]

_OPERATION_ID_SCHEMA: Schema = {
    "type": "string",
    "pattern": OPERATION_ID_PATTERN,
    "description": (
        "Your own name for this call. Called again with the same name and arguments, the tool waits for what is still "
        "running, answers what it answered, and does nothing twice."
    ),
}
_EVIDENCE_SCHEMA: Schema = {"type": "object", "description": "Pointers to the proof: log paths, command, exit code."}


def names_by_alias(names: Iterable[str]) -> Mapping[str, str]:
    """Return the tool for every name that a client may use: its own, and one without dots for hosts that refuse them.

    Raises: Fault if two tools would share a name, or one is too long for a host.
    """
    found: dict[str, str] = {}
    for name in names:
        for spelling in {name, name.replace(".", "_")}:
            if spelling in found or len(spelling) > LONGEST_NAME:
                raise Fault(f"The tool name `{name}` is taken already, or is longer than {LONGEST_NAME} characters.")
            found[spelling] = name
    return found


def published(tool: Tool) -> McpTool:
    """Return a tool as `tools/list` shows it."""
    return McpTool(
        name=tool.name,
        title=tool.name.replace(".", ": ").replace("_", " ").capitalize(),
        description=tool.summary,
        input_schema=input_schema(tool),
        output_schema=output_schema(tool),
        annotations=ToolAnnotations(
            read_only_hint=not tool.mutates,
            destructive_hint=tool.person_only,
            idempotent_hint=not tool.mutates or tool.idempotent,
            open_world_hint=False,
        ),
    )


def input_schema(tool: Tool) -> Schema:
    """Return what a tool takes, as one document; a tool that changes something takes an operation id as well."""
    root, definitions = _schema_of(tool.arguments)
    properties = dict(root["properties"])
    if tool.mutates:
        properties[OPERATION_ID] = _OPERATION_ID_SCHEMA
    return _document({**root, "properties": properties}, definitions)


def output_schema(tool: Tool) -> Schema:
    """Return the envelope that a tool answers with when it does not refuse, as one document."""
    data, definitions = _schema_of(tool.output)
    root = {
        "type": "object",
        "properties": {"ok": {"const": True}, "data": data, "evidence": _EVIDENCE_SCHEMA},
        "required": ["ok", "data"],
        "additionalProperties": False,
    }
    return _document(root, definitions)


def _schema_of(shape: type[msgspec.Struct]) -> tuple[Schema, Schema]:
    """Return the schema of a struct itself, and those that it refers to; strict clients want no `$ref` at the root."""
    (root,), definitions = msgspec.json.schema_components([shape])
    name = root["$ref"].removeprefix("#/$defs/")
    own = {key: value for key, value in definitions[name].items() if key not in ("title", "description")}
    return own, {key: value for key, value in definitions.items() if key != name}


def _document(root: Schema, definitions: Schema) -> Schema:
    return {**root, "$defs": definitions} if definitions else root
