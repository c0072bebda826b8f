"""Provider tools: search, fetch and code tools that would run outside the sandbox.

The tools that an agent runs itself are a known list; every other tool counts as the provider's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Body = dict[str, Any]

_NAME_CHARS = 60


class OwnTools(Struct, frozen=True, kw_only=True):
    """The marks of tools that the agent runs itself, and of other requests for provider tools."""

    kinds: frozenset[str] = frozenset()
    """The types of such tools; an empty type is listed where a tool need not have one."""
    kinds_beginning: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()
    """The members of an entry that hold such tools, for families without types; in plain form."""
    reaching: frozenset[str] = frozenset()
    """Members of a request that ask for provider tools in another way; in plain form."""


class CleanedRequest(Struct, frozen=True, kw_only=True):
    """A request without the provider's own tools."""

    body: Body
    removed: tuple[str, ...] = ()
    """The provider's tools that were removed; the agent's own tools remain."""
    denied: tuple[str, ...] = ()
    """Parts that cannot be removed without changing the request: it is refused."""


ANTHROPIC = OwnTools(
    kinds=frozenset(("", "custom")),
    kinds_beginning=("bash_", "text_editor_", "memory_", "tool_search_tool_"),
    reaching=frozenset(("mcpservers", "container")),
)
OPENAI = OwnTools(
    kinds=frozenset(("function", "custom", "namespace", "local_shell", "apply_patch", "tool_search")),
    reaching=frozenset(("websearchoptions", "searchparameters", "plugins", "prompt")),
)
GOOGLE = OwnTools(members=frozenset(("functiondeclarations",)))


def without_provider_tools(body: Body, own: OwnTools) -> CleanedRequest:
    """Remove the provider's own tools from a request, and name the parts that cannot be removed."""
    asks = [name for name, value in body.items() if _plain(name) in own.reaching and value]
    said = [value for name, value in body.items() if _plain(name) in _CONTENT_MEMBERS]
    denied = [*asks, *(["an address to fetch"] if _has_address(said) else [])]
    kept, removed = dict(body), []
    for name, tools in body.items():
        if _plain(name) == "tools" and tools:
            kept[name], others = _own_tools(tools, own)
            removed += others
            if not kept[name]:
                denied += others
    inner = next((name for name in body if _plain(name) == "generatecontentrequest"), None)
    if inner is not None and isinstance(body[inner], dict):
        within = without_provider_tools(body[inner], own)
        kept[inner], removed, denied = within.body, [*removed, *within.removed], [*denied, *within.denied]
    return CleanedRequest(body=kept if removed else body, removed=_short_names(removed), denied=_short_names(denied))


def _own_tools(tools: Any, own: OwnTools) -> tuple[list[Any], list[str]]:
    """Return the tools that the agent runs, and the names of those that the provider runs."""
    kept: list[Any] = []
    removed: list[str] = []
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict):
            removed.append(str(type(tool).__name__))
        elif own.members:
            foreign = [name for name in tool if _plain(name) not in own.members]
            removed += foreign
            kept += [{name: tool[name] for name in tool if name not in foreign}] if len(foreign) < len(tool) else []
        elif _is_own(str(tool.get("type") or ""), own):
            inner, others = _own_tools(tool["tools"], own) if tool.get("tools") else ([], [])
            removed += others
            kept.append({**tool, "tools": inner} if others else tool)
        else:
            removed.append(str(tool.get("type") or "a tool without a type"))
    return kept, removed


def _is_own(kind: str, own: OwnTools) -> bool:
    return kind in own.kinds or kind.startswith(own.kinds_beginning)


def _plain(name: str) -> str:
    """Return a name without case and underscores: some providers accept `google_search` and `googleSearch`."""
    return name.replace("_", "").lower()


def _short_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name[:_NAME_CHARS] for name in names}))


_CONTENT_MEMBERS = ("messages", "input", "contents")
_DATA_OF_TOOLS = ("input", "args", "arguments", "response")
"""Members with data of tool calls, in which an address is only text."""
_ADDRESS_MEMBERS = {"source": ("url",), "imageurl": ("", "url"), "fileurl": ("",), "filedata": ("fileUri", "file_uri")}
"""Members of a part that hold an image or a file, and the member with its address."""


def _has_address(said: list[Any]) -> bool:
    """Tell whether the content names an address that the provider would fetch."""
    open_parts = list(said)
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, dict):
            if any(_holds_address(_plain(name), value) for name, value in part.items()):
                return True
            open_parts += [value for name, value in part.items() if name not in _DATA_OF_TOOLS]
        elif isinstance(part, list):
            open_parts += part
    return False


def _holds_address(name: str, value: Any) -> bool:
    inner: Mapping[str, Any] = value if isinstance(value, dict) else {"": value}
    addresses = [inner.get(member) for member in _ADDRESS_MEMBERS.get(name, ())]
    return any(isinstance(each, str) and not each.startswith("data:") for each in addresses)
