"""How each coding agent is told of AOP's MCP server; the token stays in an environment variable, and is only named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from aop.core.errors import Json
from aop.core.text.json import pretty_json

TOKEN_VARIABLE = "AOP_TOKEN"


class Reached(Struct, frozen=True, kw_only=True):
    """Where the server is: a command that a host starts, or the address of an `aop serve`."""

    command: Sequence[str] = ()
    url: str | None = None


def configuration(host: str, reached: Reached) -> str:
    """Return the text for the host's configuration file."""
    return HOSTS[host](reached)


def _claude(reached: Reached) -> str:
    token = f"${{{TOKEN_VARIABLE}}}"
    return _json({"mcpServers": {"aop": _typed(reached, token)}})


def _vscode(reached: Reached) -> str:
    token = f"${{env:{TOKEN_VARIABLE}}}"
    return _json({"servers": {"aop": _typed(reached, token)}})


def _gemini(reached: Reached) -> str:
    token = f"${TOKEN_VARIABLE}"
    if reached.url is not None:
        return _json({"mcpServers": {"aop": {"httpUrl": reached.url, "headers": _bearer(token)}}})
    return _json({"mcpServers": {"aop": {**_started(reached), "env": {TOKEN_VARIABLE: token}}}})


def _codex(reached: Reached) -> str:
    if reached.url is not None:
        told: dict[str, Json] = {"url": reached.url, "bearer_token_env_var": TOKEN_VARIABLE}
    else:
        told = {**_started(reached), "env_vars": [TOKEN_VARIABLE]}
    # Codex may begin before a server is up, and then works without it.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in {**told, "required": True}.items()]
    return "\n".join(["[mcp_servers.aop]", *lines]) + "\n"


HOSTS: Mapping[str, Callable[[Reached], str]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
}
FILES: Mapping[str, str] = {
    "claude": ".mcp.json",
    "codex": "~/.codex/config.toml",
    "gemini": ".gemini/settings.json",
    "vscode": ".vscode/mcp.json",
}


def _typed(reached: Reached, token: str) -> dict[str, Json]:
    if reached.url is not None:
        return {"type": "http", "url": reached.url, "headers": _bearer(token)}
    return {"type": "stdio", **_started(reached), "env": {TOKEN_VARIABLE: token}}


def _started(reached: Reached) -> dict[str, Json]:
    program, *words = reached.command
    return {"command": program, "args": words}


def _bearer(token: str) -> dict[str, Json]:
    return {"Authorization": f"Bearer {token}"}


def _json(value: Json) -> str:
    return pretty_json(value).decode()
