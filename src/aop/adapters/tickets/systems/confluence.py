"""Confluence as the documentation, through `mcp-atlassian`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aop.adapters.tickets.mcp.operation_table import TablePort
from aop.adapters.tickets.mcp.retries import with_retries
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.tickets.ports import KnownTool

MOST_PAGES = 5

TABLE: Mapping[str, KnownTool] = {
    "get_page": KnownTool("confluence_get_page", {"page": "page_id", "described": "include_metadata"}),
    "search_pages": KnownTool("confluence_search", {"words": "query", "most": "limit"}),
}


class ConfluenceDocs(TablePort):
    """Implements `aop.tickets.ports.DocsPort`."""

    table = TABLE
    prefix = "confluence_"

    def __init__(self, upstream: Upstream, *, waits: Sequence[float]) -> None:
        super().__init__(upstream)
        self.waits = waits

    @with_retries
    async def get_project_context(self, service_name: str) -> str:
        named = "".join(sign for sign in service_name if sign not in '"\\')
        found = await self._call("search_pages", words=f'type = page AND title ~ "{named}"', most=MOST_PAGES)
        return "\n\n".join([await self._page(str(page["id"])) for page in found])

    @with_retries
    async def get_architecture_context(self, page_id: str) -> str:
        return await self._page(page_id)

    async def _page(self, page_id: str) -> str:
        found: Any = await self._call("get_page", page=page_id, described=False)
        return str(found["content"]["value"])
