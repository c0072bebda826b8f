"""Quotas of providers: headers of responses and words of programs, as they are met."""

from __future__ import annotations

import pytest

from aop.adapters.models.metering.quotas import Quota, quota_in_text, told_quota

HEADERS = {
    "seconds": ({"retry-after": "30"}, Quota(retry_after_seconds=30.0)),
    "milliseconds first": ({"retry-after-ms": "1500", "retry-after": "2"}, Quota(retry_after_seconds=1.5)),
    "a date": ({"retry-after": "Thu, 01 Jan 2026 12:00:00 GMT"}, Quota(retry_at="2026-01-01T12:00:00.000Z")),
    "a unified reset": (
        {"anthropic-ratelimit-unified-reset": "1767268800"},
        Quota(retry_at="2026-01-01T12:00:00.000Z"),
    ),
    "the reset of what is used up": (
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2026-01-01T12:00:00Z",
            "anthropic-ratelimit-tokens-remaining": "5",
            "anthropic-ratelimit-tokens-reset": "2026-01-01T13:00:00Z",
        },
        Quota(retry_at="2026-01-01T12:00:00.000Z"),
    ),
    "a duration": (
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
        Quota(retry_after_seconds=360.0),
    ),
    "nothing": ({}, Quota()),
    "a negative time": ({"retry-after": "-30"}, Quota()),
    "a huge time": ({"retry-after": "9" * 40}, Quota()),
    "a date that is over": (
        {"retry-after": "Fri, 01 Jan 1999 12:00:00 GMT"},
        Quota(retry_at="1999-01-01T12:00:00.000Z"),
    ),
    "nonsense": ({"retry-after": "soon", "anthropic-ratelimit-unified-reset": "9" * 30}, Quota()),
}
TEXTS = {
    "Claude AI usage limit reached|1767268800": Quota(retry_at="2026-01-01T12:00:00.000Z"),
    "Rate limit reached. Please try again in 20s.": Quota(retry_after_seconds=20.0),
    "You have hit your usage limit. Try again in 1 hour 5 minutes.": Quota(retry_after_seconds=3900.0),
    "429 Too Many Requests": Quota(),
    "Quota exceeded until 2026-01-01T12:00:00Z": Quota(retry_at="2026-01-01T12:00:00.000Z"),
    "There is no room on this device.": None,
}


@pytest.mark.parametrize(("headers", "quota"), HEADERS.values(), ids=HEADERS)
def test_the_headers_of_a_refusal_tell_when_to_try_again(headers: dict[str, str], quota: Quota) -> None:
    assert told_quota(headers) == quota


@pytest.mark.parametrize(("text", "quota"), TEXTS.items(), ids=TEXTS)
def test_the_words_of_a_program_tell_of_a_quota(text: str, quota: Quota | None) -> None:
    assert quota_in_text(text) == quota
