"""MCP hosts: the configuration file of each; the token stays in a variable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from aop.core.errors import Json
from aop.core.text.json import pretty_json

TOKEN_VARIABLE = "AOP_TOKEN"


class ServerAddress(Struct, frozen=True, kw_only=True):
    """A command that the host starts, or the address of an `aop serve`."""

    command: Sequence[str] = ()
    url: str | None = None


def _claude(address: ServerAddress) -> str:
    token = f"${{{TOKEN_VARIABLE}}}"
    return _json({"mcpServers": {"aop": _typed_entry(address, token)}})


def _vscode(address: ServerAddress) -> str:
    token = f"${{env:{TOKEN_VARIABLE}}}"
    return _json({"servers": {"aop": _typed_entry(address, token)}})


def _gemini(address: ServerAddress) -> str:
    token = f"${TOKEN_VARIABLE}"
    if address.url is not None:
        return _json({"mcpServers": {"aop": {"httpUrl": address.url, "headers": _bearer(token)}}})
    return _json({"mcpServers": {"aop": {**_command_entry(address), "env": {TOKEN_VARIABLE: token}}}})


def _codex(address: ServerAddress) -> str:
    if address.url is not None:
        keys: dict[str, Json] = {"url": address.url, "bearer_token_env_var": TOKEN_VARIABLE}
    else:
        keys = {**_command_entry(address), "env_vars": [TOKEN_VARIABLE]}
    # Without `required`, Codex starts before the server is up, and works without it.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in {**keys, "required": True}.items()]
    return "\n".join(["[mcp_servers.aop]", *lines]) + "\n"


HOSTS: Mapping[str, Callable[[ServerAddress], str]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
}
"""Each returns the text for the host's configuration file."""
FILES: Mapping[str, str] = {
    "claude": ".mcp.json",
    "codex": "~/.codex/config.toml",
    "gemini": ".gemini/settings.json",
    "vscode": ".vscode/mcp.json",
}


def _typed_entry(address: ServerAddress, token: str) -> dict[str, Json]:
    if address.url is not None:
        return {"type": "http", "url": address.url, "headers": _bearer(token)}
    return {"type": "stdio", **_command_entry(address), "env": {TOKEN_VARIABLE: token}}


def _command_entry(address: ServerAddress) -> dict[str, Json]:
    program, *words = address.command
    return {"command": program, "args": words}


def _bearer(token: str) -> dict[str, Json]:
    return {"Authorization": f"Bearer {token}"}


def _json(value: Json) -> str:
    return pretty_json(value).decode()
