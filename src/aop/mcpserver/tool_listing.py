"""Tool listing: rows of the catalogue as MCP tools, and the names they answer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcp_types import Tool as McpTool

from aop.core.errors import Fault
from aop.kernel.contracts.listed_tools import listed_tool
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


def mcp_tool(tool: Tool) -> McpTool:
    """Return a tool as `tools/list` shows it."""
    return McpTool.model_validate(listed_tool(tool))
