"""Which requests of an agent the meter forwards, and in which form; and when a session is over its cap."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.adapters.models.metering.dialects import DIALECTS
from aop.adapters.models.metering.requests import (
    AdmittedRequest,
    IncomingRequest,
    RejectedRequest,
    SessionTerms,
    admit,
)
from aop.adapters.models.metering.tallies import Caps, CountedExchange, Outcome, Tally
from aop.brains.conversation import TokenCounts
from aop.brains.prices import Price, Prices

KEY = "aop-session"
BEARER = ("authorization", f"Bearer {KEY}")
ASKS = {"model": "gpt-x", "messages": [{"role": "user", "content": "Hello"}]}
MODEL = "openai:gpt-x"


def tried(
    *headers: tuple[str, str],
    path: str = "/v1/chat/completions",
    query: str = "",
    body: bytes | None = None,
    method: str = "POST",
) -> AdmittedRequest | RejectedRequest:
    content = msgspec.json.encode(ASKS) if body is None else body
    request = IncomingRequest(method=method, path=path, query=query, headers=headers or (BEARER,), body=content)
    terms = SessionTerms(dialect=DIALECTS["openai"], provider="openai", key=KEY, provider_tools=False)
    return admit(request, terms)


def forwarded(**changes: Any) -> AdmittedRequest:
    admitted = tried(**changes)
    assert isinstance(admitted, AdmittedRequest), admitted
    return admitted


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ((("authorization", "Bearer sk-other"),), ""),
        ((("accept", "*/*"),), ""),
        ((BEARER, ("x-api-key", "sk-other")), ""),
        ((BEARER,), "key=sk-other"),
    ],
    ids=["another", "none", "a second header", "one in the address"],
)
def test_every_key_of_a_request_is_that_of_the_session(headers: tuple[tuple[str, str], ...], query: str) -> None:
    rejected = tried(*headers, query=query)
    assert isinstance(rejected, RejectedRequest)
    assert rejected.status == 401


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"path": "/v1/files"}, 404),
        ({"path": "/v1/chat/completions/../files"}, 404),
        ({"method": "DELETE"}, 404),
        ({"body": b"[]"}, 400),
        ({"body": b'{"messages": []}'}, 400),
        ({"body": msgspec.json.encode({**ASKS, "background": True})}, 400),
        ({"body": msgspec.json.encode({**ASKS, "web_search_options": {"a": 1}})}, 400),
    ],
)
def test_what_is_not_a_plain_request_to_a_model_is_not_forwarded(changes: dict[str, Any], status: int) -> None:
    rejected = tried(**changes)
    assert isinstance(rejected, RejectedRequest)
    assert rejected.status == status


def test_a_compressed_request_is_not_forwarded() -> None:
    rejected = tried(BEARER, ("content-encoding", "gzip"))
    assert isinstance(rejected, RejectedRequest)
    assert rejected.status == 415


def test_neither_a_key_nor_a_cookie_of_the_agent_is_forwarded() -> None:
    admitted = tried(BEARER, ("cookie", "a=b"), ("x-kept", "yes"), query=f"key={KEY}&alt=sse")
    assert isinstance(admitted, AdmittedRequest)
    assert (admitted.headers, admitted.query) == ((("x-kept", "yes"),), "alt=sse")


def test_the_provider_reads_the_request_that_was_judged_and_no_other() -> None:
    twice = b'{"model": "gpt-huge", "messages": [], "model": "gpt-x"}'
    admitted = forwarded(body=twice)
    assert (admitted.model, msgspec.json.decode(admitted.body)["model"]) == (MODEL, "gpt-x")
    assert admitted.body.count(b'"model"') == 1


def test_a_streamed_answer_is_asked_to_tell_its_tokens() -> None:
    admitted = forwarded(body=msgspec.json.encode({**ASKS, "stream": True}))
    assert msgspec.json.decode(admitted.body)["stream_options"] == {"include_usage": True}


PRICES = Prices({MODEL: Price(input=1.0, output=1.0)})


@pytest.mark.parametrize(
    ("caps", "model", "words"),
    [
        (Caps(), MODEL, ""),
        (Caps(tokens=1001), MODEL, ""),
        (Caps(tokens=1000), MODEL, "has used 1000 of its 1000 tokens"),
        (Caps(cost_usd=0.0011), MODEL, ""),
        (Caps(cost_usd=0.001), MODEL, "has used 0.001 of its 0.001 USD"),
        (Caps(cost_usd=1.0), "openai:unpriced", "the price of `openai:unpriced` is unknown"),
    ],
)
def test_a_session_at_its_cap_is_refused_the_next_request(caps: Caps, model: str, words: str) -> None:
    tally = Tally(caps, PRICES)
    used = TokenCounts(input_tokens=600, output_tokens=400)
    tally.add(CountedExchange(path="/", model=MODEL, status=200, outcome=Outcome.ANSWERED, usage=used, seconds=0.1))
    reason = tally.refusal_reason(model)
    assert words in reason
    assert bool(reason) == bool(words)
