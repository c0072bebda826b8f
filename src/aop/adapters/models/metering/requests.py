"""Requests of agents: checks of key, path and form before they are forwarded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Struct

from aop.adapters.models.metering.dialects import KEY_HEADERS, Dialect, Route
from aop.adapters.models.metering.provider_tools import searches_by_itself, without_provider_tools
from aop.adapters.models.metering.tallies import Outcome
from aop.brains.names import ModelName
from aop.core.errors import ProviderToolRefused, RequestPartUnknown

LARGEST_BODY = 64 * 1024 * 1024
_NOT_FORWARDED = frozenset(
    (
        *KEY_HEADERS, "accept-encoding", "connection", "content-length", "cookie", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip


class IncomingRequest(Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None
    """None: too large, incomplete, or not read."""


class AdmittedRequest(Struct, frozen=True, kw_only=True):
    """A request to forward, without the real key."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    model: str = ""
    """As `provider:model`; empty if the request is free."""
    removed: tuple[str, ...] = ()
    """The provider's own tools that were removed."""


class RejectedRequest(Struct, frozen=True, kw_only=True):
    """A request that is not forwarded."""

    status: int
    why: str
    outcome: Outcome = Outcome.NOT_ALLOWED


class SessionTerms(Struct, frozen=True, kw_only=True):
    """The permissions of a session."""

    dialect: Dialect
    provider: str
    key: str
    provider_tools: bool
    """Whether the provider's own tools are allowed."""


def admit(request: IncomingRequest, terms: SessionTerms) -> AdmittedRequest | RejectedRequest:
    """Return the request to forward, or why it is rejected."""
    dialect, key = terms.dialect, terms.key
    if not has_key(request, key):
        return RejectedRequest(status=401, why="The key is not the key of this session.")
    route = next((route for route in dialect.routes if _matches(route, request)), None)
    if route is None:
        return RejectedRequest(
            status=404, why=f"This endpoint does not forward `{request.method} {request.path[:100]}`."
        )
    if request.body is None:
        return RejectedRequest(status=413, why=f"The request is larger than {LARGEST_BODY} bytes.")
    if any(name == "content-encoding" and value != "identity" for name, value in request.headers):
        return RejectedRequest(status=415, why="Compressed requests are not supported; send the plain body.")
    admitted = AdmittedRequest(
        method=request.method,
        path=request.path.removeprefix(dialect.prefix),
        query=urlencode([pair for pair in _pairs(request.query) if pair[0] != "key"]),
        headers=tuple(pair for pair in request.headers if pair[0] not in _NOT_FORWARDED),
        body=request.body,
    )
    return admitted if request.method == "GET" else _read(request, admitted, route, terms)


def _read(
    request: IncomingRequest, admitted: AdmittedRequest, route: Route, terms: SessionTerms
) -> AdmittedRequest | RejectedRequest:
    """Return the request as it was parsed, or why it is rejected."""
    content = _object(admitted.body)
    model = _model(route, request.path, content) if route.costs else ""
    if content is None or (route.costs and not model):
        return RejectedRequest(status=400, why="The request is not a JSON object that names a model.")
    if content.get("background"):
        return RejectedRequest(status=400, why="Background requests are not supported: their tokens cannot be counted.")
    removed: tuple[str, ...] = ()
    if not terms.provider_tools:
        without = without_provider_tools(content, route.shape, terms.dialect.own)
        denied = (*without.denied, *([model] if searches_by_itself(model) else []))
        if denied or without.unknown:
            return _rejected_parts(denied, without.unknown)
        content, removed = without.body, without.removed
    return msgspec.structs.replace(
        admitted,
        # Encoded again: of two members with one name, the provider must not read the other one.
        body=msgspec.json.encode(_with_usage_report(request.path, content) if route.costs else content),
        model=str(ModelName(terms.provider, model)) if model else "",
        removed=removed,
    )


def _rejected_parts(denied: Sequence[str], unknown: Sequence[str]) -> RejectedRequest:
    listed = ", ".join(f"`{name}`" for name in denied or unknown)
    if denied:
        why = f"The policy (`execution.provider_tools`) does not allow the provider's own tools: {listed}."
        return RejectedRequest(status=400, why=f"{ProviderToolRefused.code}: {why}", outcome=Outcome.PROVIDER_TOOL)
    why = (
        f"AOP does not know these parts of the request, which could carry the provider's own tools: {listed}."
        " `execution.provider_tools: allow` forwards them."
    )
    return RejectedRequest(status=400, why=f"{RequestPartUnknown.code}: {why}", outcome=Outcome.UNKNOWN_PART)


def _matches(route: Route, request: IncomingRequest) -> bool:
    return route.method == request.method and route.path.fullmatch(request.path) is not None


def has_key(request: IncomingRequest, key: str) -> bool:
    """Tell whether every key in a request is the key of its session."""
    values = [value for name, value in request.headers if name in KEY_HEADERS]
    given = [value.removeprefix("Bearer ") for value in values]
    given += [value for name, value in _pairs(request.query) if name == "key"]
    return bool(given) and all(compare_digest(each.encode(), key.encode()) for each in given)


def _pairs(query: str) -> Iterable[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _model(route: Route, path: str, content: dict[str, Any] | None) -> str:
    found = route.path.fullmatch(path)
    named = found.groupdict().get("model") if found else None
    model = named or (content or {}).get("model")
    return model[:200] if isinstance(model, str) else ""


def _with_usage_report(path: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return the request with token usage switched on, if it is a streamed chat completion."""
    options = content.get("stream_options") or {}
    if not path.endswith("/chat/completions") or content.get("stream") is not True or not isinstance(options, dict):
        return content
    return {**content, "stream_options": {**options, "include_usage": True}}
