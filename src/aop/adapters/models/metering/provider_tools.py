"""Provider tools: search, fetch and code tools that would run outside the sandbox.

A request is read as data, by the shape of its family: tools are found wherever that may carry them. The tools that an
agent runs itself are a known list; every other tool counts as the provider's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from aop.adapters.models.metering.request_shapes import Kinds, Leaf, Members, Shape, plain_name
from aop.core.text.visible import visible

Body = dict[str, Any]

_NAME_CHARS = 60
_MOST_NAMES = 10


class OwnTools(Struct, frozen=True, kw_only=True):
    """The marks of tools that the agent runs itself."""

    kinds: frozenset[str] = frozenset()
    """The types of such tools; an empty type is listed where a tool need not have one."""
    kinds_beginning: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()
    """The members of an entry that hold such tools, for families without types; in plain form."""


class CleanedRequest(Struct, frozen=True, kw_only=True):
    """A request without the provider's own tools."""

    body: Body
    removed: tuple[str, ...] = ()
    """The provider's tools that were removed; the agent's own tools remain."""
    denied: tuple[str, ...] = ()
    """Requests for the provider's tools that cannot be removed without changing the rest."""
    unknown: tuple[str, ...] = ()
    """Parts that are not known, and could carry such a tool."""


ANTHROPIC = OwnTools(
    kinds=frozenset(("", "custom")), kinds_beginning=("bash_", "text_editor_", "memory_", "tool_search_tool_")
)
OPENAI = OwnTools(
    kinds=frozenset(("function", "custom", "namespace", "local_shell", "apply_patch", "tool_search")),
)
GOOGLE = OwnTools(members=frozenset(("functiondeclarations",)))

_REACHING = frozenset(
    (
        *("mcpservers", "container", "websearchoptions", "searchparameters", "plugins", "prompt", "conversation"),
        *("cachedcontent", "enablesearch", "searchoptions"),
    )
)
"""Members of a request that ask for the provider's tools, or for stored parts that may hold some; in plain form."""
_SEARCHING_MODEL = re.compile(r":online\b|-search-|deep-research|(?:^|/)sonar")


def searches_by_itself(model: str) -> bool:
    """Tell whether the name of a model says that it always searches the web."""
    return _SEARCHING_MODEL.search(model) is not None


def without_provider_tools(body: Body, shape: Members, own: OwnTools) -> CleanedRequest:
    """Remove the provider's own tools from a request, and name the parts that cannot be removed or are not known."""
    reading = _Reading(own)
    cleaned = reading.read(body, shape, "")
    return CleanedRequest(
        body=cleaned if reading.removed else body,
        removed=_short_names(reading.removed),
        denied=_short_names(reading.denied),
        unknown=_short_names(reading.unknown),
    )


class _Reading:
    """One reading of a request; shapes end at a fixed depth, however deep the request is."""

    def __init__(self, own: OwnTools) -> None:
        self._own = own
        self.removed: list[str] = []
        self.denied: list[str] = []
        self.unknown: list[str] = []

    def read(self, value: Any, shape: Shape, place: str) -> Any:
        """Return a value without the provider's tools."""
        if isinstance(shape, Leaf):
            return self._read_leaf(value, shape)
        if isinstance(value, list):
            return [self._read_one(each, shape, f"{place}[]") for each in value]
        return self._read_one(value, shape, place)

    def _read_one(self, value: Any, shape: Members | Kinds, place: str) -> Any:
        if isinstance(value, dict):
            members = shape if isinstance(shape, Members) else self._members_of(value, shape, place)
            return value if members is None else self._read_object(value, members, place)
        if isinstance(value, list):
            self.unknown.append(f"{place}[]")
        elif isinstance(shape, Members):
            self._read_leaf(value, shape.text)
        return value

    def _members_of(self, value: Body, shape: Kinds, place: str) -> Members | None:
        kind = value.get("type")
        members = shape.untyped if kind is None else shape.known.get(kind) if isinstance(kind, str) else None
        if members is None:
            self.unknown.append(f"{place}.type={kind}" if kind is not None else f"{place} without a type")
        return members

    def _read_object(self, value: Body, shape: Members, place: str) -> Body:
        read: Body = {}
        for name, inner in value.items():
            plain, within = plain_name(name), f"{place}.{name}" if place else name
            if plain in shape.known:
                read[name] = self.read(inner, shape.known[plain], within)
                continue
            read[name] = inner
            if inner:
                (self.denied if plain in _REACHING else self.unknown).append(within)
        return read

    def _read_leaf(self, value: Any, leaf: Leaf) -> Any:
        if leaf is Leaf.TOOLS and value:
            kept, others = _own_tools(value, self._own)
            self.removed += others
            if not kept:
                self.denied += others
            return kept
        if value and _is_fetched(value, leaf):
            self.denied.append("an address to fetch")
        return value


def _is_fetched(value: Any, leaf: Leaf) -> bool:
    """Tell whether the provider would fetch a value."""
    if leaf not in (Leaf.ADDRESS, Leaf.FILE) or (isinstance(value, str) and value.startswith("data:")):
        return False
    return leaf is Leaf.ADDRESS or not isinstance(value, str) or ":" in value


def _own_tools(tools: Any, own: OwnTools, *, nested: bool = False) -> tuple[list[Any], list[str]]:
    """Return the tools that the agent runs, and the names of those that the provider runs."""
    kept: list[Any] = []
    removed: list[str] = []
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict):
            removed.append(str(type(tool).__name__))
        elif own.members:
            foreign = [name for name in tool if plain_name(name) not in own.members]
            removed += foreign
            kept += [{name: tool[name] for name in tool if name not in foreign}] if len(foreign) < len(tool) else []
        elif _is_own(str(tool.get("type") or ""), own) and not (nested and tool.get("tools")):
            inner, others = _own_tools(tool["tools"], own, nested=True) if tool.get("tools") else ([], [])
            removed += others
            kept.append({**tool, "tools": inner} if others else tool)
        else:
            removed.append(str(tool.get("type") or "a tool without a type"))
    return kept, removed


def _is_own(kind: str, own: OwnTools) -> bool:
    return kind in own.kinds or kind.startswith(own.kinds_beginning)


def _short_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({visible(name)[:_NAME_CHARS] for name in names}))[:_MOST_NAMES]
