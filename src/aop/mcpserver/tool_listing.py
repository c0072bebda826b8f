"""Tool listing: rows of the catalogue as MCP tools, with names, schemas and hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations

from aop.core.errors import Fault
from aop.core.roles import Role
from aop.kernel.contracts.lean_schemas import listed_schemas
from aop.kernel.gateway.calls import Tool

LONGEST_NAME = 64
OPERATION_ID = "operation_id"


def names_by_alias(names: Iterable[str]) -> Mapping[str, str]:
    """Return the tool for each accepted name: its own, and one without dots for hosts that refuse dots.

    Raises: Fault if two tools would share a name, or one is too long for a host.
    """
    found: dict[str, str] = {}
    for name in names:
        for spelling in {name, name.replace(".", "_")}:
            if spelling in found or len(spelling) > LONGEST_NAME:
                raise Fault(f"The tool name `{name}` is used twice, or is longer than {LONGEST_NAME} characters.")
            found[spelling] = name
    return found


ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Shows the tools in hosts that otherwise hide them until a search."""


def mcp_tool(tool: Tool) -> McpTool:
    """Return a tool as `tools/list` shows it."""
    taken, answered = listed_schemas(tool)
    return McpTool(
        name=tool.name,
        title=tool.name.replace(".", ": ").replace("_", " ").capitalize(),
        description=tool.summary,
        input_schema=taken,
        output_schema=answered,
        annotations=ToolAnnotations(
            read_only_hint=not tool.mutates,
            destructive_hint=tool.person_only,
            idempotent_hint=not tool.mutates or tool.idempotent,
            open_world_hint=False,
        ),
        _meta=ALWAYS_LOADED if Role.SWE in tool.roles else None,
    )
