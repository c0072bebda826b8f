"""Unread code: files that could hide a violation, because nothing read them."""

from __future__ import annotations

from collections.abc import Sequence

from aop.core.paths.globs import matches
from aop.core.text.counts import count
from aop.forge.check.clauses import Code
from aop.forge.contracts.shapes.boundaries import Boundaries
from aop.forge.scan.inventory import VENDORED

_DATA = ("prisma", "sql")
"""Languages that have tables, and no routes."""


def unfollowed_in(glob: str, code: Code) -> list[str]:
    """Return the links and submodules that match a glob, or that may lead to files which would."""
    last = glob.rpartition("/")[2].replace("*", "x").replace("?", "x")
    return [
        path
        for path, leads_on in code.unfollowed.items()
        if matches(glob, path) or (leads_on and matches(glob, f"{path}/{last}"))
    ]


def unread_in(glob: str, code: Code) -> list[str]:
    """Return the sources of a layer that cannot be told to be imported, because nothing read them."""
    return [path for path in code.inventory.unread if matches(glob, path)] + unfollowed_in(glob, code)


def unread_for_routes(code: Code, boundaries: Boundaries | None) -> str:
    """Return why routes may exist that were not found; empty if every source was read."""
    return _unread(code, boundaries, without=_DATA)


def unread_for_tables(code: Code, boundaries: Boundaries | None) -> str:
    """Return why tables may exist that were not found; empty if every source was read."""
    return _unread(code, boundaries, without=())


def _unread(code: Code, boundaries: Boundaries | None, *, without: Sequence[str]) -> str:
    globs = [layer.glob for layer in boundaries.layers] if boundaries is not None else []
    files = [
        source.path
        for source in code.inventory.sources
        if (source.facts.error_line or source.facts.problem) and not source.is_test and source.language not in without
    ]
    # Code of others has routes and tables of its own, which are none of the project unless a layer claims them.
    files += [
        path
        for path, why in code.inventory.unread.items()
        if why != VENDORED or any(matches(glob, path) for glob in globs)
    ]
    more = f", and {count(len(files) - 1, 'more file')}" if len(files) > 1 else ""
    return f"`{files[0]}` cannot be parsed{more}." if files else ""
