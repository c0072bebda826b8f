"""Dialects of provider families: paths, key header, errors and usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from aop.adapters.models.metering.provider_tools import ANTHROPIC, GOOGLE, OPENAI, OwnTools
from aop.adapters.models.metering.request_shapes import CHAT, CONTENTS, MESSAGES, RESPONSES, Members
from aop.brains.conversation import TokenCounts

_MOST_TOKENS = 10**12


class Route(Struct, frozen=True, kw_only=True):
    """A request that is forwarded."""

    method: str
    path: re.Pattern[str]
    """With the group `model` if the path names the model."""
    shape: Members
    """The parts that its body may have."""
    costs: bool = False


class ReportedTokens(Struct, frozen=True, kw_only=True):
    """Tokens that the provider reports; not final ones may still grow."""

    usage: TokenCounts
    is_final: bool


class Dialect(Struct, frozen=True, kw_only=True):
    """The differences between the families."""

    prefix: str = ""
    """The path prefix in a base URL of this family."""
    routes: tuple[Route, ...]
    key_header: str
    key_form: str = "{}"
    error: Callable[[int, str], Mapping[str, Any]]
    read: Callable[[Mapping[str, Any], TokenCounts], ReportedTokens | None]
    """Reads the tokens of one event or of a whole answer, given the tokens so far."""
    own: OwnTools
    """The tools that the agent runs itself."""


KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
_MODEL = r"(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*)"


_NO_BODY = Members(known={})


def _post(path: str, shape: Members, *, costs: bool = False) -> Route:
    return Route(method="POST", path=re.compile(path), shape=shape, costs=costs)


def _get(path: str) -> Route:
    return Route(method="GET", path=re.compile(path), shape=_NO_BODY)


_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    404: "not_found_error",
    413: "request_too_large",
    504: "timeout_error",
}
_OPENAI_KINDS = {401: "invalid_api_key", 402: "insufficient_quota"}
_GOOGLE_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    404: "NOT_FOUND",
    504: "DEADLINE_EXCEEDED",
}


def _anthropic_error(status: int, message: str) -> Mapping[str, Any]:
    return {"type": "error", "error": {"type": _ANTHROPIC_KINDS.get(status, "api_error"), "message": message}}


def _openai_error(status: int, message: str) -> Mapping[str, Any]:
    kind = _OPENAI_KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _google_error(status: int, message: str) -> Mapping[str, Any]:
    return {"error": {"code": status, "message": message, "status": _GOOGLE_STATES.get(status, "UNAVAILABLE")}}


def _anthropic_usage(event: Mapping[str, Any], before: TokenCounts) -> ReportedTokens | None:
    reported = _object_in(event, "usage") or _object_in(_object_in(event, "message"), "usage")
    if not reported:
        return None
    cache_read = _count(reported, "cache_read_input_tokens") or 0
    cache_write = _count(reported, "cache_creation_input_tokens") or 0
    read = (_count(reported, "input_tokens") or 0) + cache_read + cache_write
    written = _count(reported, "output_tokens")
    usage = TokenCounts(
        input_tokens=read or before.input_tokens,
        output_tokens=before.output_tokens if written is None else written,
        cache_read_tokens=cache_read if read else before.cache_read_tokens,
        cache_write_tokens=cache_write if read else before.cache_write_tokens,
    )
    return ReportedTokens(usage=usage, is_final=event.get("type") in ("message_delta", "message"))


def _openai_usage(event: Mapping[str, Any], _before: TokenCounts) -> ReportedTokens | None:
    reported = _object_in(event, "usage") or _object_in(_object_in(event, "response"), "usage")
    if not reported:
        return None
    chat = "prompt_tokens" in reported
    cached = _object_in(reported, "prompt_tokens_details" if chat else "input_tokens_details")
    usage = TokenCounts(
        input_tokens=_count(reported, "prompt_tokens" if chat else "input_tokens"),
        output_tokens=_count(reported, "completion_tokens" if chat else "output_tokens"),
        cache_read_tokens=_count(cached, "cached_tokens") or 0,
    )
    return ReportedTokens(usage=usage, is_final=usage.total_tokens is not None)


def _google_usage(event: Mapping[str, Any], _before: TokenCounts) -> ReportedTokens | None:
    reported = _object_in(event, "usageMetadata")
    read = _count(reported, "promptTokenCount")
    if read is None:
        return None
    usage = TokenCounts(
        input_tokens=read + (_count(reported, "toolUsePromptTokenCount") or 0),
        output_tokens=(_count(reported, "candidatesTokenCount") or 0) + (_count(reported, "thoughtsTokenCount") or 0),
        cache_read_tokens=_count(reported, "cachedContentTokenCount") or 0,
    )
    candidates = event.get("candidates")
    ended = isinstance(candidates, list) and any(
        isinstance(each, dict) and each.get("finishReason") for each in candidates
    )
    return ReportedTokens(usage=usage, is_final=ended or "promptFeedback" in event)


def _object_in(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = event.get(name)
    return inner if isinstance(inner, dict) else {}


def _count(reported: Mapping[str, Any], name: str) -> int | None:
    figure = reported.get(name)
    return figure if type(figure) is int and 0 <= figure <= _MOST_TOKENS else None


_OPENAI = Dialect(
    prefix="/v1",
    routes=(
        _post(r"/v1/responses", RESPONSES, costs=True),
        _post(r"/v1/responses/compact", RESPONSES, costs=True),
        _post(r"/v1/responses/input_tokens", RESPONSES),
        _post(r"/v1/chat/completions", CHAT, costs=True),
        # Some model names contain `/`; `..` must not match, since it would reach other paths with the key.
        _get(r"/v1/models(/[A-Za-z0-9][A-Za-z0-9._:-]*)*"),
    ),
    key_header="authorization",
    key_form="Bearer {}",
    error=_openai_error,
    read=_openai_usage,
    own=OPENAI,
)

DIALECTS: Mapping[str, Dialect] = {
    "anthropic": Dialect(
        routes=(
            _post(r"/v1/messages", MESSAGES, costs=True),
            _post(r"/v1/messages/count_tokens", MESSAGES),
            _get(rf"/v1/models(/{_MODEL})?"),
        ),
        key_header="x-api-key",
        error=_anthropic_error,
        read=_anthropic_usage,
        own=ANTHROPIC,
    ),
    "google": Dialect(
        routes=(
            _post(rf"/v1(alpha|beta)?/models/{_MODEL}:(generateContent|streamGenerateContent)", CONTENTS, costs=True),
            _post(rf"/v1(alpha|beta)?/models/{_MODEL}:countTokens", CONTENTS),
            _get(rf"/v1(alpha|beta)?/models(/{_MODEL})?"),
        ),
        key_header="x-goog-api-key",
        error=_google_error,
        read=_google_usage,
        own=GOOGLE,
    ),
    "openai": _OPENAI,
    "ollama": _OPENAI,
    "vllm": _OPENAI,
    "compatible": _OPENAI,
}
"""By the provider of a model's name."""
