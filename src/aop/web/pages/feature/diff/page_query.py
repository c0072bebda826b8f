"""Query of a review page: the state of its diff, as links carry it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlencode

from msgspec import Struct
from starlette.datastructures import QueryParams

MOST_WISHES = 100
"""So many wishes of an address are heard."""
MOST_ROWS = 10_000
WHOLE = 100_000
"""So many lines of a gap are all of them."""

Layout = Literal["inline", "split"]


class DiffQuery(Struct, frozen=True, kw_only=True):
    """The wishes of a reader: inline or side by side, rows of a file, and lines around its hunks."""

    path: str
    kept: Mapping[str, str] = {}
    """The query that every address of this page carries besides."""
    layout: Layout
    rows: Mapping[str, int]
    """The number of rows to show, by the path of a file."""
    context: Mapping[tuple[str, int], int]
    """The number of lines to show on both sides of a gap, by path and the line after it; 0 for the last gap."""

    def link(
        self,
        *,
        layout: Layout | None = None,
        rows: Mapping[str, int] | None = None,
        context: Mapping[tuple[str, int], int] | None = None,
    ) -> str:
        """Return the address of this page with other wishes."""
        wishes = [each for each in self.kept.items() if each[1]]
        wishes += [("diff", "split")] if (layout or self.layout) == "split" else []
        wishes += [("show", f"{number}:{path}") for path, number in {**self.rows, **(rows or {})}.items()]
        around = {**self.context, **(context or {})}
        wishes += [("context", f"{line}-{number}:{path}") for (path, line), number in around.items()]
        return f"{self.path}?{urlencode(wishes)}" if wishes else self.path


def read_query(path: str, query: QueryParams, *, kept: Mapping[str, str] | None = None) -> DiffQuery:
    """Return the options in an address; anything else is ignored."""
    rows: dict[str, int] = {}
    context: dict[tuple[str, int], int] = {}
    for wish in query.getlist("show")[:MOST_WISHES]:
        number, _, file = wish.partition(":")
        if file and (wanted := _number(number)):
            rows[file] = min(wanted, MOST_ROWS)
    for wish in query.getlist("context")[:MOST_WISHES]:
        place, _, file = wish.partition(":")
        line, _, number = place.partition("-")
        if file and line.isascii() and line.isdigit() and (wanted := _number(number)):
            context[file, int(line[:9])] = min(wanted, WHOLE)
    layout: Layout = "split" if query.get("diff") == "split" else "inline"
    return DiffQuery(path=path, kept=kept or {}, layout=layout, rows=rows, context=context)


def _number(text: str) -> int:
    return int(text[:9]) if text.isascii() and text.isdigit() else 0
