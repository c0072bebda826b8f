"""What a provider itself would do for an agent, and lead out of the sandbox: search, fetch, run code, call servers.

What an agent runs itself is a known list; everything else that stands among the tools counts as the provider's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Body = dict[str, Any]

_NAME_CHARS = 60


class OwnTools(Struct, frozen=True, kw_only=True):
    """How a family says which tools the agent runs itself, and how it asks its provider to reach out otherwise."""

    kinds: frozenset[str] = frozenset()
    """The types of such tools; none is such a type too, where a tool need not have one."""
    kinds_beginning: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()
    """The members of an entry that hold such tools, where an entry has no type but members; plain."""
    reaching: frozenset[str] = frozenset()
    """Members of a request that ask for the same in another way; plain."""


class CleanedRequest(Struct, frozen=True, kw_only=True):
    """A request without what the provider would do itself."""

    body: Body
    removed: tuple[str, ...] = ()
    """The provider's tools that stood beside the agent's own: without them it still works."""
    denied: tuple[str, ...] = ()
    """What cannot be taken out without making another request of it: it is refused."""


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
    """Take the provider's own tools out of a request, and name what cannot be taken out."""
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
    """Divide tools into those that the agent runs and the names of those that the provider runs."""
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
    """Return a name as the most generous reader takes it: some know `google_search` and `googleSearch`."""
    return name.replace("_", "").lower()


def _short_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name[:_NAME_CHARS] for name in names}))


# --- what a provider would fetch to look at it ------------------------------------------------------

_CONTENT_MEMBERS = ("messages", "input", "contents")
_DATA_OF_TOOLS = ("input", "args", "arguments", "response")
"""What a model says to a tool, and a tool to it: there, an address is only text."""
_ADDRESS_MEMBERS = {"source": ("url",), "imageurl": ("", "url"), "fileurl": ("",), "filedata": ("fileUri", "file_uri")}
"""Members of a part that name a picture or a file, and which of their own members is its address."""


def _has_address(said: list[Any]) -> bool:
    """Tell whether a provider would fetch something from an address that the agent names."""
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
