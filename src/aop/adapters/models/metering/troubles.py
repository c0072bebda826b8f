"""Troubles of providers: the kind of a refusal or a broken answer, and its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from aop.adapters.models.metering.quotas import Quota, told_quota
from aop.core import errors
from aop.core.text.visible import visible
from aop.kernel.record.documents.usage import Trouble

LONGEST_WORDS = 300
_READ_BYTES = 16 * 1024
"""Of a longer refusal only the beginning is read."""
_SERVER_ERROR = 500
_BY_STATUS = {
    401: errors.AgentNotLoggedIn.code,
    402: errors.ProviderPaymentRequired.code,
    403: errors.AgentNotLoggedIn.code,
    408: errors.ProviderTimedOut.code,
    429: errors.ModelQuotaReached.code,
    504: errors.ProviderTimedOut.code,
    529: errors.ProviderOverloaded.code,
}
_BY_NAME = (
    # Some providers say these with another status: 400 for a wrong key, 429 for an account without credit.
    (
        errors.ProviderPaymentRequired.code,
        r"insufficient_quota|billing_error|billing_not_active|credit balance is too low",
    ),
    (errors.AgentNotLoggedIn.code, r"API_KEY_INVALID|API key not valid|invalid_api_key|authentication_error"),
    (errors.ProviderOverloaded.code, r"overloaded"),
)
_IN_STREAM = (
    (errors.ModelQuotaReached.code, r"rate_limit|RESOURCE_EXHAUSTED"),
    (errors.AgentNotLoggedIn.code, r"permission_error|UNAUTHENTICATED|PERMISSION_DENIED"),
)
_HTML = re.compile(r"<(script|style)\b.*?(?:</\1>|$)|<!--.*?(?:-->|$)|<[^>]*(?:>|$)", re.DOTALL | re.IGNORECASE)


def trouble_of_refusal(status: int, headers: Mapping[str, str], body: bytes) -> Trouble | None:
    """Return the trouble that a refusal tells of; None if only the request itself is refused."""
    told = _errors_in(body)
    names = " ".join(text for error in told for text in _texts(error))
    kind = _named(_BY_NAME, names) or _BY_STATUS.get(status)
    kind = kind or (errors.ProviderTrouble.code if status >= _SERVER_ERROR else None)
    if kind is None:
        return None
    return _trouble(kind, status, _words(told, body), told_quota(headers))


def trouble_in_event(event: Any) -> Trouble | None:
    """Return the trouble that an event of an answer tells of, or None."""
    told = list(_errors(event))
    names = " ".join(text for error in told for text in _texts(error))
    if not names:
        return None
    kind = _named((*_BY_NAME, *_IN_STREAM), names) or errors.ProviderTrouble.code
    return _trouble(kind, 0, _words(told, b""), Quota())


def trouble_named(kind: str, words: str = "", status: int = 0) -> Trouble:
    """Return a trouble that the meter itself has noticed."""
    return _trouble(kind, status, words, Quota())


def begins_with(body: bytes) -> str:
    """Return the beginning of an answer that is not that of a model, as words."""
    return _short(_plain(body))


def _trouble(kind: str, status: int, words: str, quota: Quota) -> Trouble:
    return Trouble(
        kind=kind,
        status=status,
        words=_short(words),
        retry_after_seconds=quota.retry_after_seconds,
        retry_at=quota.retry_at,
    )


def _named(kinds: tuple[tuple[str, str], ...], names: str) -> str | None:
    return next((kind for kind, words in kinds if re.search(words, names, re.IGNORECASE)), None)


def _errors_in(body: bytes) -> list[Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return []
    return list(_errors(said))


def _errors(said: Any) -> Iterator[Any]:
    """Yield the error objects of an answer or an event, wherever a family has them."""
    for each in said[:10] if isinstance(said, list) else [said]:
        if isinstance(each, dict):
            response = each.get("response")
            inner = response.get("error") if isinstance(response, dict) else None
            error = each.get("error") or inner or (each if each.get("type") == "error" else None)
            if isinstance(error, str | dict):
                yield error


def _texts(error: Any) -> list[str]:
    if isinstance(error, str):
        return [error]
    return [str(error[name]) for name in ("type", "code", "status", "message") if error.get(name)]


def _words(told: list[Any], body: bytes) -> str:
    for error in told:
        message = error if isinstance(error, str) else error.get("message")
        if isinstance(message, str) and message.strip():
            return message
    return _plain(body)


def _plain(body: bytes) -> str:
    """Return what people would read of a page or a text."""
    return _HTML.sub(" ", body[:_READ_BYTES].decode(errors="replace"))


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= LONGEST_WORDS else f"{line[:LONGEST_WORDS]}…"
