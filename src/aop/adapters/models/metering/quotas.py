"""Quotas of providers: when a limited request may be sent again, if that is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from aop.core.clock import timestamp

_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0}
_UNITS |= {"hr": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])", re.IGNORECASE
)
_WORDS = re.compile(
    r"rate[- ]?limit|usage limit|quota (?:exceeded|reached|used up)|exceeded your (?:current )?quota|too many requests"
    r"|resource[_ ]exhausted|overloaded_error|\b(?:429|529)\b",
    re.IGNORECASE,
)
_WHEN = re.compile(r"(?:in|after|for|wait)\s+((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*(?:and\s+)?)+)", re.IGNORECASE)
_EPOCH = re.compile(r"[|=: ](1\d{9})\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)")


class Quota(Struct, frozen=True, kw_only=True):
    """A limit that is reached; both times are unknown if the provider tells none."""

    retry_after_seconds: float | None = None
    retry_at: str = ""
    """The moment in UTC; empty if only the seconds are known, or nothing."""


def told_quota(headers: Mapping[str, str]) -> Quota:
    """Return when the headers of a refusal say that a request may be sent again."""
    after = headers.get("retry-after", "").strip()
    for text, unit in ((headers.get("retry-after-ms", "").strip(), 0.001), (after, 1.0)):
        if re.fullmatch(r"\d{1,9}(?:\.\d+)?", text):
            return Quota(retry_after_seconds=float(text) * unit)
    moments = list(filter(None, [_http_date(after), *_reset_moments(headers)]))
    if moments:
        return Quota(retry_at=max(moments))
    seconds = list(_reset_seconds(headers))
    return Quota(retry_after_seconds=max(seconds)) if seconds else Quota()


def quota_in_text(text: str) -> Quota | None:
    """Return the quota that the words of a failed program tell of; None if they are not about limits."""
    if not _WORDS.search(text):
        return None
    moment, epoch, when = _MOMENT.search(text), _EPOCH.search(text), _WHEN.search(text)
    if moment is not None:
        return Quota(retry_at=_moment(moment[0]))
    if epoch is not None:
        return Quota(retry_at=_from_epoch(epoch[1]))
    seconds = _duration(when[1]) if when is not None else None
    return Quota(retry_after_seconds=seconds)


def _reset_moments(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the moments at which limits that are used up are reset."""
    unified = headers.get("anthropic-ratelimit-unified-reset", "")
    if unified.isdigit():
        yield _from_epoch(unified)
    for name, value in headers.items():
        limit = name.removesuffix("-reset")
        if limit != name and name.startswith("anthropic-ratelimit-") and headers.get(f"{limit}-remaining") == "0":
            yield _moment(value)


def _reset_seconds(headers: Mapping[str, str]) -> Iterator[float]:
    for limit in ("requests", "tokens"):
        seconds = _duration(headers.get(f"x-ratelimit-reset-{limit}", ""))
        if seconds is not None and headers.get(f"x-ratelimit-remaining-{limit}") == "0":
            yield seconds


def _duration(text: str) -> float | None:
    parts = _PART.findall(text)
    return sum(float(figure) * _unit(unit) for figure, unit in parts) if parts else None


def _unit(name: str) -> float:
    lower = name.lower()
    return _UNITS[lower] if lower in _UNITS else _UNITS[lower.removesuffix("s")]


def _http_date(text: str) -> str:
    try:
        return timestamp(parsedate_to_datetime(text).replace(tzinfo=UTC)) if text else ""
    except (ValueError, OverflowError):
        return ""


def _moment(text: str) -> str:
    try:
        found = datetime.fromisoformat(text.strip())
        return timestamp(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def _from_epoch(digits: str) -> str:
    try:
        return timestamp(datetime.fromtimestamp(int(digits), UTC))
    except (ValueError, OverflowError, OSError):
        return ""
