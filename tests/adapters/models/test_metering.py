"""Metered endpoint over real HTTP: counts, caps and the hidden key."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

from aop.adapters.models.metering.dialects import DIALECTS
from aop.adapters.models.metering.forwarder import ProviderEndpoint, RequestTimeouts
from aop.adapters.models.metering.sessions import AT_MOST, Meter, open_meter
from aop.adapters.models.metering.tallies import Caps, CountedExchange, MeterReport
from aop.adapters.models.metering.usage_files import MeterCount, UsageFiles
from aop.brains.conversation import NO_TOKENS, TokenCounts
from aop.brains.prices import Price, Prices
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Usage
from tests.adapters.agents.scripted_provider import BREAK, HANG, Answer, Provider, events, providing, streamed, whole
from tests.racing import until

KEY = "sk-the-real-key-0123456789"
DEAR = Price(input=1_000_000, output=2_000_000, cache_read=500_000, cache_write=3_000_000)
"""A dollar a token read, two a token written."""
PRICES = Prices({"anthropic:m": DEAR, "openai:m": DEAR, "google:m": DEAR})
CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
RESPONSES_USAGE = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
GEMINI_USAGE = {
    "promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4,
}  # fmt: skip
MESSAGE = {"type": "message", "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}}
MESSAGE_EVENTS = events(
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": 'they say "usage"'}},
    {"type": "message_delta", "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)
ASKED = {"model": "m", "messages": []}


class Family(NamedTuple):
    provider: str
    path: str
    key: str
    asked: Any
    answer: Answer


FAMILIES = {
    "anthropic": Family("anthropic", "/v1/messages", "x-api-key: {}", ASKED, whole(MESSAGE)),
    "anthropic streamed": Family(
        "anthropic", "/v1/messages", "x-api-key: {}", {**ASKED, "stream": True}, streamed(*MESSAGE_EVENTS)
    ),
    "responses": Family("openai", "/responses", "authorization: Bearer {}", ASKED, whole({"usage": RESPONSES_USAGE})),
    "responses streamed": Family(
        "openai",
        "/responses",
        "authorization: Bearer {}",
        {**ASKED, "stream": True},
        streamed(
            *events(
                {"type": "response.created", "response": {"usage": None}},
                {"type": "response.completed", "response": {"usage": RESPONSES_USAGE}},
            )
        ),
    ),
    "chat": Family("openai", "/chat/completions", "authorization: Bearer {}", ASKED, whole({"usage": CHAT_USAGE})),
    "chat streamed": Family(
        "openai",
        "/chat/completions",
        "authorization: Bearer {}",
        {**ASKED, "stream": True},
        streamed(*events({"choices": [{}], "usage": None}, {"choices": [], "usage": CHAT_USAGE}), b"data: [DONE]\n\n"),
    ),
    "gemini": Family(
        "google",
        "/v1beta/models/m:generateContent",
        "x-goog-api-key: {}",
        {},
        whole({"candidates": [{"finishReason": "STOP"}], "usageMetadata": GEMINI_USAGE}),
    ),
    "gemini streamed": Family(
        "google",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "x-goog-api-key: {}",
        {},
        streamed(
            *events(
                {"candidates": [{}], "usageMetadata": {"promptTokenCount": 10}},
                {"candidates": [{"finishReason": "STOP"}], "usageMetadata": GEMINI_USAGE},
            )
        ),
    ),
}


class Scene(NamedTuple):
    provider: Provider
    meter: Meter

    def ask_as(self, family: Family) -> httpx2.Response:
        header, _, form = family.key.partition(": ")
        return self.ask(family.path, family.asked, **{header: form.format(self.meter.placeholder_key)})

    def ask(self, path: str = "/v1/messages", asked: Any = None, **headers: str) -> httpx2.Response:
        body = ASKED if asked is None else asked
        given = headers or {"x-api-key": self.meter.placeholder_key}
        return httpx2.post(self.meter.base_url + path, json=body, headers=given, timeout=300)


@contextmanager
def scene(
    *answers: Answer,
    of: str = "anthropic",
    key: str = KEY,
    caps: Caps | None = None,
    timeouts: RequestTimeouts | None = None,
    keep: Callable[[Usage], None] = lambda _usage: None,
    provider_tools: bool = False,
) -> Iterator[Scene]:
    with providing(*answers) as provider:
        upstream = ProviderEndpoint(provider=of, base_url=provider.url + DIALECTS[of].prefix, key=key)
        opened = open_meter(
            upstream, prices=PRICES, caps=caps, timeouts=timeouts, keep=keep, provider_tools=provider_tools
        )
        with opened as meter:
            yield Scene(provider, meter)


def outcomes(report: MeterReport) -> list[tuple[str, int, TokenCounts, bool]]:
    return [(each.outcome.value, each.status, each.usage, each.is_estimated) for each in report.exchanges]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_tokens_and_the_cost_of_an_answer_are_counted_and_the_answer_is_unchanged(family: Family) -> None:
    with scene(family.answer, of=family.provider) as at:
        answer = at.ask_as(family)
    assert answer.content == b"".join(part for part in family.answer.parts if isinstance(part, bytes))
    report = at.meter.report()
    assert report.turn_usage == Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, cost_usd=18)
    assert (report.estimated, report.outcomes) == (0, {"answered": 1})
    (heard,) = at.provider.heard
    header, _, form = family.key.partition(": ")
    assert (heard.path, heard.headers[header]) == (DIALECTS[family.provider].prefix + family.path, form.format(KEY))
    assert at.meter.placeholder_key not in str(heard)


def test_a_streamed_chat_is_told_to_report_its_tokens() -> None:
    family = FAMILIES["chat streamed"]
    with scene(family.answer, of="vllm", key="") as at:
        at.ask_as(family)
    (heard,) = at.provider.heard
    assert json.loads(heard.body) == {**family.asked, "stream_options": {"include_usage": True}}
    assert "authorization" not in heard.headers
    assert (at.meter.report().usage.total_tokens, at.meter.report().cost_usd) == (15, None)


def test_each_part_of_a_stream_is_handed_on_before_the_next_one_is_there() -> None:
    seen = threading.Event()
    with scene(streamed(MESSAGE_EVENTS[0], seen, *MESSAGE_EVENTS[1:])) as at:
        key = {"x-api-key": at.meter.placeholder_key}
        with httpx2.stream("POST", f"{at.meter.base_url}/v1/messages", json=ASKED, headers=key, timeout=300) as answer:
            parts = answer.iter_raw()
            assert next(parts) == MESSAGE_EVENTS[0]
            seen.set()
            assert b"".join(parts) == b"".join(MESSAGE_EVENTS[1:])


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        (Caps(cost_usd=18), "This session has used 18 of its 18 USD."),
        (Caps(tokens=15), "This session has used 15 of its 15 tokens."),
    ],
)
def test_a_session_that_has_used_up_its_cap_gets_402_and_nobody_is_asked(caps: Caps, message: str) -> None:
    with scene(whole(MESSAGE), caps=caps) as at:
        assert at.ask().status_code == 200
        answer = at.ask()
    assert (answer.status_code, answer.headers["x-should-retry"]) == (402, "false")
    assert answer.json() == {"type": "error", "error": {"type": "billing_error", "message": message}}
    assert len(at.provider.heard) == 1
    assert at.meter.report().outcomes == {"answered": 1, "over_cap": 1}


@pytest.mark.parametrize(
    ("family", "error"),
    [
        ("chat", {"message": "M", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}),
        ("gemini", {"code": 402, "message": "M", "status": "FAILED_PRECONDITION"}),
    ],
)
def test_the_402_is_worded_as_the_provider_would(family: str, error: Any) -> None:
    asked = FAMILIES[family]
    with scene(asked.answer, of=asked.provider, caps=Caps(tokens=0)) as at:
        answer = at.ask_as(asked)
    message = "This session has used 0 of its 0 tokens."
    assert (answer.status_code, answer.json()) == (402, {"error": {**error, "message": message}})


def test_a_cap_on_cost_is_not_given_to_a_model_without_a_price() -> None:
    with scene(whole(MESSAGE), caps=Caps(cost_usd=1)) as at:
        answer = at.ask(asked={**ASKED, "model": "unheard-of"})
    assert (answer.status_code, at.provider.heard) == (402, [])
    assert "the price of `anthropic:unheard-of` is unknown" in answer.json()["error"]["message"]


def test_a_model_that_a_person_lets_work_without_a_cap_is_forwarded_and_no_other_without_a_price() -> None:
    caps = Caps(cost_usd=1, uncapped=frozenset({"anthropic:unheard-of"}))
    with scene(whole(MESSAGE), caps=caps) as at:
        other = at.ask(asked={**ASKED, "model": "never-heard-of"})
        allowed = at.ask(asked={**ASKED, "model": "unheard-of-20260101"})
    assert (other.status_code, allowed.status_code) == (402, 200)


def test_a_model_without_a_cap_does_not_lift_the_cap_of_the_others() -> None:
    caps = Caps(cost_usd=1, uncapped=frozenset({"anthropic:unheard-of", "anthropic:m"}))
    with scene(whole(MESSAGE), whole(MESSAGE), caps=caps) as at:
        asked = [at.ask(asked={**ASKED, "model": name}) for name in ("unheard-of", "m", "m", "unheard-off", "other")]
    assert [answer.status_code for answer in asked] == [200, 200, 402, 402, 402]


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_a_refusal_of_the_provider_is_handed_on_and_costs_nothing(status: int) -> None:
    said = {"type": "error", "error": {"type": "some_error", "message": f"not with {KEY}"}}
    with scene(whole(said, status=status, **{"retry-after": "7", "set-cookie": "a=b", "x-account": "me"})) as at:
        answer = at.ask()
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "7")
    assert answer.text == json.dumps(said).replace(KEY, at.meter.placeholder_key)
    assert not {"set-cookie", "x-account"} & set(answer.headers)
    assert outcomes(at.meter.report()) == [("provider_refused", status, NO_TOKENS, False)]


def test_half_a_stream_is_handed_on_as_half_and_counted_by_its_length() -> None:
    with scene(streamed(*MESSAGE_EVENTS[:2], BREAK)) as at, pytest.raises(httpx2.RemoteProtocolError):
        at.ask()
    length = sum(map(len, MESSAGE_EVENTS[:2]))
    used = TokenCounts(input_tokens=10, output_tokens=length // 4, cache_read_tokens=4)
    assert outcomes(at.meter.report()) == [("cut_off", 200, used, True)]
    assert at.meter.report().estimated == 1
    assert at.meter.report().turn_usage.estimated


def test_a_page_in_place_of_an_answer_is_handed_on_and_counted_by_its_length() -> None:
    page = Answer(parts=(b"<html>" + b"x" * 394 + b"\xff",), headers={"content-type": "text/html"})
    with scene(page) as at:
        answer = at.ask()
    assert answer.content == page.parts[0]
    length = len(at.provider.heard[0].body)
    assert outcomes(at.meter.report()) == [
        ("cut_off", 200, TokenCounts(input_tokens=length // 4, output_tokens=100), True)
    ]


@pytest.mark.parametrize("usage", [{"input_tokens": "many", "output_tokens": -1}, [], {"input_tokens": True}, 7])
def test_a_usage_that_makes_no_sense_is_not_believed(usage: Any) -> None:
    with scene(whole({"type": "message", "usage": usage})) as at:
        at.ask()
    length = len(at.provider.heard[0].body)
    assert at.meter.report().usage.input_tokens == length // 4
    assert at.meter.report().estimated == 1


def test_a_redirect_is_not_followed() -> None:
    with scene(whole({}, status=307, location="http://127.0.0.1:9/elsewhere")) as at:
        answer = at.ask()
    assert (answer.status_code, len(at.provider.heard)) == (502, 1)
    assert answer.json()["error"]["message"] == "The provider answered with a redirect, which is not followed."


def test_a_provider_that_says_nothing_is_a_504() -> None:
    with scene(streamed(HANG), timeouts=RequestTimeouts(silence_seconds=0.2)) as at:
        answer = at.ask()
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "timeout_error")
    assert at.meter.report().outcomes == {"timed_out": 1}


def test_a_stream_that_stops_in_the_middle_is_broken_off_in_time() -> None:
    with (
        scene(streamed(MESSAGE_EVENTS[0], HANG), timeouts=RequestTimeouts(seconds=5)) as at,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        at.ask()
    assert at.meter.report().outcomes == {"timed_out": 1}


def test_a_provider_that_is_not_there_is_a_502() -> None:
    with providing(whole({})) as gone:
        pass
    with open_meter(ProviderEndpoint(provider="anthropic", base_url=gone.url, key=KEY), prices=PRICES) as meter:
        answer = httpx2.post(
            f"{meter.base_url}/v1/messages", json=ASKED, headers={"x-api-key": meter.placeholder_key}, timeout=300
        )
    assert (answer.status_code, answer.json()["error"]["message"]) == (502, "The provider cannot be reached.")
    assert outcomes(meter.report()) == [("unreachable", 502, NO_TOKENS, False)]


def test_an_answer_that_comes_after_its_agent_has_left_is_counted_as_the_provider_bills_it() -> None:
    with scene(whole(MESSAGE)) as at, socket.socket() as client:
        client.connect(("127.0.0.1", httpx2.URL(at.meter.base_url).port))
        body, key = json.dumps(ASKED), at.meter.placeholder_key
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(f"{head}{body}".encode())
        until(lambda: bool(at.provider.heard))
        client.close()
    assert [(each[0], each[3]) for each in outcomes(at.meter.report())] == [("answered", False)]


def test_an_agent_that_leaves_is_counted_and_its_request_given_up() -> None:
    with scene(streamed(MESSAGE_EVENTS[0], HANG)) as at:
        key = {"x-api-key": at.meter.placeholder_key}
        with httpx2.stream("POST", f"{at.meter.base_url}/v1/messages", json=ASKED, headers=key, timeout=300) as answer:
            next(answer.iter_raw())
    assert [each[0] for each in outcomes(at.meter.report())] == ["agent_left"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/messages", {"x-api-key": KEY}, 401),
        ("/v1/messages", {"authorization": "Bearer nothing"}, 401),
        ("/v1/files", {}, 404),
        ("/v1/messages/../files", {}, 404),
        ("/v1/%6dessages", {}, 404),
        ("/v1/messages/batches", {}, 404),
        ("//v1/messages", {}, 404),
        ("/v1/messages", {"content-encoding": "gzip"}, 415),
    ],
)
def test_what_is_not_allowed_reaches_nobody(path: str, headers: dict[str, str], status: int) -> None:
    with scene(whole(MESSAGE)) as at:
        known = {"x-api-key": at.meter.placeholder_key} if status != 401 else {}
        url = httpx2.URL(at.meter.base_url).copy_with(raw_path=path.encode())
        answer = httpx2.post(url, json=ASKED, headers={**known, **headers}, timeout=300)
    assert (answer.status_code, answer.json()["type"], at.provider.heard) == (status, "error", [])
    assert at.meter.report().outcomes == {"not_allowed": 1}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": 7}', b"[" * 100_000])
def test_a_request_that_names_no_model_reaches_nobody(body: bytes) -> None:
    with scene(whole(MESSAGE)) as at:
        key = {"x-api-key": at.meter.placeholder_key}
        answer = httpx2.post(f"{at.meter.base_url}/v1/messages", content=body, headers=key, timeout=300)
    assert (answer.status_code, at.provider.heard) == (400, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/models/org/m:1", 200), ("/v1/models/m/../../files", 404), ("/v1/models/m/..", 404), ("/v1/models//m", 404)],
)
def test_the_key_goes_to_the_models_of_a_provider_and_to_nothing_beside_them(path: str, status: int) -> None:
    with scene(whole({"id": "m"}), of="openai") as at:
        # Not by a client that makes the path plain before it sends it.
        agent = HTTPConnection("127.0.0.1", httpx2.URL(at.meter.base_url).port, timeout=300)
        agent.request("GET", path, headers={"authorization": f"Bearer {at.meter.placeholder_key}"})
        answer = agent.getresponse()
        agent.close()
    assert (answer.status, [each.path for each in at.provider.heard]) == (status, [path] if status == 200 else [])


def test_an_answer_that_would_come_later_and_uncounted_is_not_asked_for() -> None:
    with scene(whole({"status": "queued", "usage": None}), of="openai") as at:
        key = {"authorization": f"Bearer {at.meter.placeholder_key}"}
        answer = at.ask("/responses", {"model": "m", "input": "x", "background": True}, **key)
    assert (answer.status_code, at.provider.heard) == (400, [])


def test_counting_tokens_is_handed_on_and_costs_nothing() -> None:
    with scene(whole({"input_tokens": 12})) as at:
        answer = at.ask("/v1/messages/count_tokens?beta=true")
    assert (answer.json(), at.provider.heard[0].path) == ({"input_tokens": 12}, "/v1/messages/count_tokens?beta=true")
    assert (at.meter.report().cost_usd, at.meter.report().usage) == (0, NO_TOKENS)


def test_a_key_in_the_address_is_taken_out_of_it() -> None:
    family = FAMILIES["gemini"]
    with scene(family.answer, of="google") as at:
        httpx2.post(f"{at.meter.base_url}{family.path}?key={at.meter.placeholder_key}&alt=json", json={}, timeout=300)
    (heard,) = at.provider.heard
    assert (heard.path, heard.headers["x-goog-api-key"]) == (f"{family.path}?alt=json", KEY)


def test_nothing_that_was_said_and_no_key_is_kept() -> None:
    with scene(whole({**MESSAGE, "content": "a secret answer"})) as at:
        at.ask(asked={**ASKED, "system": "a secret question"})
    (exchange,) = at.meter.report().exchanges
    assert "secret" not in str(exchange)
    assert set(msgspec.to_builtins(exchange)) == set(CountedExchange.__struct_fields__)
    assert exchange.first_byte_seconds is not None
    assert 0 < exchange.first_byte_seconds <= exchange.seconds
    assert KEY not in repr(ProviderEndpoint(provider="anthropic", base_url="http://x", key=KEY))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc",
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_client_that_stops_in_the_middle_does_not_keep_the_endpoint_open(sent: bytes) -> None:
    with socket.socket() as client:
        with scene(whole(MESSAGE)) as at:
            client.connect(("127.0.0.1", httpx2.URL(at.meter.base_url).port))
            client.sendall(sent)
            assert at.ask().status_code == 200
        assert "aop-meter" not in {thread.name for thread in threading.enumerate()}


def test_nothing_of_a_request_is_taken_in_before_it_shows_the_key() -> None:
    with scene(whole(MESSAGE)) as at, socket.socket() as client:
        client.settimeout(300)
        client.connect(("127.0.0.1", httpx2.URL(at.meter.base_url).port))
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n{")
        assert client.recv(100).startswith(b"HTTP/1.1 401 ")


def test_more_connections_than_an_agent_needs_are_turned_away() -> None:
    with scene(whole(MESSAGE)) as at, ExitStack() as held:
        key, port = at.meter.placeholder_key, httpx2.URL(at.meter.base_url).port
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: 60000000\r\n\r\n{{"
        for _ in range(AT_MOST - 1):
            client = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            client.sendall(head.encode())
        assert at.ask().status_code == 503
    assert at.provider.heard == []


def test_a_client_that_does_not_read_does_not_keep_the_endpoint_open() -> None:
    large = streamed(MESSAGE_EVENTS[0], *(b": " + b"x" * 4_000_000 + b"\n",) * 8)
    with httpx2.Client(timeout=300) as client:
        with scene(large) as at:
            key = {"x-api-key": at.meter.placeholder_key}
            asked = client.build_request("POST", f"{at.meter.base_url}/v1/messages", json=ASKED, headers=key)
            answer = client.send(asked, stream=True)
        assert "aop-meter" not in {thread.name for thread in threading.enumerate()}
        answer.close()
    assert [each[0] for each in outcomes(at.meter.report())] == ["agent_left"]


def test_no_thread_is_left_when_the_endpoint_is_closed() -> None:
    with scene(streamed(HANG)) as at:

        def ask() -> None:
            with suppress(httpx2.TransportError):
                at.ask()

        asking = threading.Thread(target=ask)
        asking.start()
    asking.join(300)
    assert "aop-meter" not in {thread.name for thread in threading.enumerate()}
    assert not asking.is_alive()


def test_what_passed_is_kept_after_each_request_so_that_a_killed_turn_can_be_counted(tmp_path: Path) -> None:
    usage_files, one = UsageFiles(tmp_path), FeatureId("one")
    family = FAMILIES["anthropic"]

    def keep(usage: Usage) -> None:
        usage_files.store(one, Role.BUILDER, MeterCount(since="2026-01-02T12:00:00.000Z", usage=usage))

    with scene(family.answer, family.answer, keep=keep) as asked:
        assert usage_files.usage_since(one, Role.BUILDER, since="") is None
        for _ in range(2):
            asked.ask_as(family)
            assert usage_files.usage_since(one, Role.BUILDER, since="") == asked.meter.report().turn_usage
    assert usage_files.usage_since(one, Role.BUILDER, since="2026-01-02T12:00:00.001Z") is None
    assert usage_files.usage_since(one, Role.PLANNER, since="") is None
    next((tmp_path / ".aop/metering").iterdir()).write_text("{")
    assert usage_files.usage_since(one, Role.BUILDER, since="") is None


def test_a_request_is_counted_before_its_client_has_the_end_of_the_answer() -> None:
    family, has_answer = FAMILIES["anthropic"], threading.Event()
    seen: list[bool] = []
    # The meter waits here: a client that could have its answer already has it within a second.
    with scene(family.answer, keep=lambda _usage: seen.append(has_answer.wait(1.0))) as asked:
        asked.ask_as(family)
        has_answer.set()
    assert seen
    assert not any(seen)


FUNCTION = {"type": "function", "name": "f"}
PROVIDER_TOOLS = [
    ("anthropic", {"tools": [{"name": "f"}, {"type": "web_search_20250305", "name": "w"}]}, ["web_search_20250305"]),
    ("anthropic", {"tools": [{"name": "f"}, {"type": "mcp_toolset"}, {"type": "bash_20250124"}]}, ["mcp_toolset"]),
    ("chat", {"tools": [FUNCTION, {"type": "web_search"}, {"type": "shell"}]}, ["shell", "web_search"]),
    ("responses", {"tools": [{"type": "namespace", "tools": [FUNCTION, {"type": "mcp"}]}, FUNCTION]}, ["mcp"]),
    ("gemini", {"tools": [{"functionDeclarations": [], "google_search": {}}, {"urlContext": {}}]},
     ["google_search", "urlContext"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "asked", "removed"), PROVIDER_TOOLS)
def test_a_tool_that_the_provider_would_run_is_taken_out_from_among_the_agents_own(
    name: str, asked: Any, removed: list[str]
) -> None:
    family = FAMILIES[name]._replace(asked={**FAMILIES[name].asked, **asked})
    with scene(family.answer, of=family.provider) as at:
        assert at.ask_as(family).status_code == 200
    (heard,) = at.provider.heard
    passed = json.loads(heard.body)
    assert not any(each in json.dumps(passed) for each in removed)
    assert len(passed["tools"]) == len(asked["tools"]) - len(removed) + (name in ("gemini", "responses"))
    assert at.meter.report().removed == dict.fromkeys(removed, 1)
    assert at.meter.report().outcomes == {"answered": 1}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("anthropic", {"tools": [{"type": "web_fetch_20250910", "name": "w"}]}),
        ("anthropic", {"mcp_servers": [{"type": "url", "url": "https://x"}]}),
        (
            "anthropic",
            {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "https://x/?q=secret"}}]}]},
        ),
        ("chat", {"web_search_options": {"search_context_size": "low"}}),
        ("chat", {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]}),
        ("responses", {"tools": [{"type": "file_search"}, {"type": "computer_use_preview"}]}),
        ("responses", {"prompt": {"id": "pmpt_1"}}),
        ("responses", {"input": [{"content": [{"type": "input_file", "file_url": "https://x"}]}]}),
        ("gemini", {"tools": [{"googleSearch": {}}, {"codeExecution": {}}]}),
        ("gemini", {"contents": [{"parts": [{"file_data": {"file_uri": "https://x"}}]}]}),
    ],
)
def test_a_request_for_the_provider_to_reach_out_is_refused_in_its_words_and_reaches_nobody(
    name: str, asked: Any
) -> None:
    family = FAMILIES[name]._replace(asked={**FAMILIES[name].asked, **asked})
    with scene(family.answer, of=family.provider) as at:
        answer = at.ask_as(family)
    error = answer.json()["error"]
    assert (answer.status_code, error.get("type", error.get("status")).lower()[:7], at.provider.heard) == (
        400, "invalid", [],
    )  # fmt: skip
    assert "`execution.provider_tools`" in error["message"]
    assert at.meter.report().outcomes == {"provider_tool": 1}


def test_what_the_provider_would_do_passes_where_the_policy_allows_it() -> None:
    family = FAMILIES["chat"]
    asked = {**ASKED, "tools": [{"type": "web_search"}]}
    with scene(family.answer, of="openai", provider_tools=True) as at:
        assert at.ask_as(family._replace(asked=asked)).status_code == 200
    assert json.loads(at.provider.heard[0].body) == asked


def test_a_second_member_of_the_same_name_hides_nothing() -> None:
    with scene(whole(MESSAGE)) as at:
        body = b'{"model": "m", "tools": [{"type": "web_search_20250305"}], "tools": [{"name": "f"}], "messages": []}'
        key = {"x-api-key": at.meter.placeholder_key}
        httpx2.post(f"{at.meter.base_url}/v1/messages", content=body, headers=key, timeout=300)
    assert b"web_search" not in at.provider.heard[0].body


def test_an_address_in_what_tools_say_and_a_picture_that_is_sent_along_are_no_reaching_out() -> None:
    block = {"type": "tool_use", "input": {"source": {"url": "https://x"}}}
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    asked = {**ASKED, "messages": [{"content": [block, picture, {"type": "search_result", "source": "https://x"}]}]}
    with scene(whole(MESSAGE)) as at:
        assert at.ask(asked=asked).status_code == 200
    assert json.loads(at.provider.heard[0].body) == asked
