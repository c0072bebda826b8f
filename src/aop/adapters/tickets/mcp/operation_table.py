"""Operation table: maps our operations to a server's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from aop.adapters.tickets.mcp.upstream import Upstream
from aop.brains.conversation import Offer
from aop.core.errors import RemoteToolsMissing
from aop.tickets.ports import KnownTool


class TablePort:
    """A port whose operations are rows of a table."""

    table: ClassVar[Mapping[str, KnownTool]]
    ours: ClassVar[Mapping[str, KnownTool]] = {}
    """More rows, which are never offered to a model."""
    prefix: ClassVar[str] = ""
    """The prefix of its tools' names, where several ports share a server."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @property
    def known_tools(self) -> Mapping[str, KnownTool]:
        """Return the tools that AOP knows the meaning of, by operation."""
        return {name: row for name, row in self.table.items() if row.tool.startswith(self.prefix)}

    async def get_mcp_tools(self) -> Sequence[Offer]:
        """Return the tools of the server that belong to this port."""
        return [tool for tool in await self._upstream.tools() if self._is_own(tool.name)]

    async def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call one of them."""
        if not self._is_own(name):
            raise RemoteToolsMissing(f"`{name}` is not a tool of this port.", tool=name)
        return msgspec.json.encode(await self._upstream.call(name, arguments)).decode()

    def _is_own(self, tool: str) -> bool:
        """Tell whether a tool belongs to this port; others are not offered to a model."""
        return tool in {row.tool for row in self.table.values()} and tool.startswith(self.prefix)

    async def _call(self, operation: str, **arguments: Any) -> Any:
        row = self.table.get(operation) or self.ours[operation]
        return await self._upstream.call(row.tool, {row.arguments[name]: value for name, value in arguments.items()})
