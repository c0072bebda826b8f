"""What an agent may ask for: with the session's own key, on a path that is allowed, in a form that can be counted."""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Struct

from aop.adapters.metering.dialects import KEY_HEADERS, Dialect, Route
from aop.brains.names import ModelName

LARGEST_BODY = 64 * 1024 * 1024
_STAY_HERE = frozenset(
    (
        *KEY_HEADERS, "accept-encoding", "connection", "content-length", "cookie", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip


class Asked(Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None
    """None: too large, or not all of it came, or it was not taken in."""


class Admitted(Struct, frozen=True, kw_only=True):
    """A request as it goes on to the provider; the real key is not in it yet."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    model: str = ""
    """As `provider:model`; empty where the request costs nothing."""


class Turned(Struct, frozen=True, kw_only=True):
    """A request that goes no further."""

    status: int
    why: str


def admit(asked: Asked, dialect: Dialect, *, provider: str, key: str) -> Admitted | Turned:
    """Return what is sent on, or why nothing is."""
    if not has_key(asked, key):
        return Turned(status=401, why="This is not the key of this session.")
    route = next((route for route in dialect.routes if _matches(route, asked)), None)
    if route is None:
        return Turned(status=404, why=f"`{asked.method} {asked.path[:100]}` is not among what this endpoint passes on.")
    if asked.body is None:
        return Turned(status=413, why=f"The request has more than {LARGEST_BODY} bytes.")
    if any(name == "content-encoding" and value != "identity" for name, value in asked.headers):
        return Turned(status=415, why="The request is compressed; send it as it is.")
    model, body = "", asked.body
    if route.costs:
        said = _object(body)
        model = _model(route, asked.path, said)
        if said is None or not model:
            return Turned(status=400, why="The request is no JSON object that names a model.")
        if said.get("background"):
            return Turned(status=400, why="The answer would come later, and nobody could count its tokens.")
        body = _told_to_report(asked.path, said) or body
    return Admitted(
        method=asked.method,
        path=asked.path.removeprefix(dialect.prefix),
        query=urlencode([pair for pair in _pairs(asked.query) if pair[0] != "key"]),
        headers=tuple(pair for pair in asked.headers if pair[0] not in _STAY_HERE),
        body=body,
        model=str(ModelName(provider, model)) if model else "",
    )


def _matches(route: Route, asked: Asked) -> bool:
    return route.method == asked.method and route.path.fullmatch(asked.path) is not None


def has_key(asked: Asked, key: str) -> bool:
    """Tell whether a request shows the key of its session, wherever it shows one."""
    values = [value for name, value in asked.headers if name in KEY_HEADERS]
    given = [value.removeprefix("Bearer ") for value in values]
    given += [value for name, value in _pairs(asked.query) if name == "key"]
    return bool(given) and all(compare_digest(each.encode(), key.encode()) for each in given)


def _pairs(query: str) -> Iterable[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _model(route: Route, path: str, said: dict[str, Any] | None) -> str:
    found = route.path.fullmatch(path)
    named = found.groupdict().get("model") if found else None
    model = named or (said or {}).get("model")
    return model[:200] if isinstance(model, str) else ""


def _told_to_report(path: str, said: dict[str, Any]) -> bytes | None:
    """Return a streamed chat completion that reports its tokens, which it does only when asked to."""
    options = said.get("stream_options") or {}
    if not path.endswith("/chat/completions") or said.get("stream") is not True or not isinstance(options, dict):
        return None
    if options.get("include_usage") is True:
        return None
    return msgspec.json.encode({**said, "stream_options": {**options, "include_usage": True}})
