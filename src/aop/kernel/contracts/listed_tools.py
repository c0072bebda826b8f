"""Listed tools: rows of the catalogue as `tools/list` sends them to an agent."""

from __future__ import annotations

from aop.core.roles import Role
from aop.kernel.contracts.lean_schemas import lean_input, lean_output
from aop.kernel.contracts.schemas import Schema, tool_schemas
from aop.kernel.gateway.calls import Tool

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Shows the tools in hosts that otherwise hide them until a search."""


def listed_tool(tool: Tool) -> Schema:
    """Return a tool as `tools/list` shows it."""
    taken, answered = tool_schemas(tool)
    return {
        "name": tool.name,
        "title": tool.name.replace(".", ": ").replace("_", " ").capitalize(),
        "description": tool.summary,
        "inputSchema": lean_input(taken) if tool.lean else taken,
        "outputSchema": lean_output(answered) if tool.lean else answered,
        "annotations": {
            "readOnlyHint": not tool.mutates,
            "destructiveHint": tool.person_only,
            "idempotentHint": not tool.mutates or tool.idempotent,
            "openWorldHint": False,
        },
        **({"_meta": ALWAYS_LOADED} if Role.SWE in tool.roles else {}),
    }
