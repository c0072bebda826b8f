"""Troubles that the meter sees over real HTTP: the sentence of each for a person, in each family."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from aop.adapters.agents.workers.turn_faults import clearest_fault
from aop.adapters.models.metering.forwarder import ProviderEndpoint, RequestTimeouts
from aop.adapters.models.metering.sessions import open_meter
from aop.brains.prices import Prices
from aop.core.errors import AgentFailed, AgentNotLoggedIn, AgentTimedOut, NoUsableAnswer
from aop.kernel.record.documents.usage import Trouble
from tests.adapters.agents.scripted_provider import BREAK, HANG, Answer, events, streamed, whole
from tests.adapters.models.test_metering import FAMILIES, KEY, MESSAGE, Family, Scene, scene
from tests.racing import until

PLAIN = {name: FAMILIES[name] for name in ("anthropic", "responses", "chat", "gemini")}
HTML = b"<!DOCTYPE html><title>Sign in</title><style>p {color: red}</style><p>Who are <b>you</b>?"


def told(family: Family, status: int, kind: str, message: str) -> Mapping[str, Any]:
    """Return an error in the form of a family."""
    if family.provider == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if family.provider == "google":
        return {"error": {"code": status, "status": kind, "message": message}}
    return {"error": {"type": kind, "code": kind, "message": message}}


REFUSALS = {
    401: ("authentication_error", "no such key", "agent_not_logged_in", "rejects the key"),
    403: ("permission_error", "not for you", "agent_not_logged_in", "rejects the key"),
    402: ("billing_error", "pay first", "provider_payment_required", "wants to be paid first"),
    429: ("rate_limit_error", "slow down", "model_quota_reached", "limits the requests"),
    500: ("api_error", "oh no", "provider_failed", "has an error of its own"),
    503: ("api_error", "The model is overloaded", "provider_overloaded", "is overloaded"),
    504: ("api_error", "too slow", "provider_timed_out", "did not answer in time"),
    529: ("overloaded_error", "busy", "provider_overloaded", "is overloaded"),
}


@pytest.mark.parametrize("family", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_is_called_by_its_name_with_the_providers_words(family: Family, status: int) -> None:
    kind, message, code, what = REFUSALS[status]
    with scene(whole(told(family, status, kind, message), status=status), of=family.provider) as at:
        assert at.ask_as(family).status_code == status
        fault = fault_of(at, family.provider)
    assert (fault.code, fault.message) == (
        code,
        f"{family.provider} {what} (HTTP status {status}). It says: {message}",
    )


UNPAID = {
    "a limit": (429, {"error": {"type": "insufficient_quota", "message": "You exceeded your current quota."}}),
    "a bad request": (400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low."}}),
}


@pytest.mark.parametrize(("status", "body"), UNPAID.values(), ids=UNPAID)
def test_an_account_without_credit_is_no_limit_and_no_bad_request(status: int, body: Any) -> None:
    with scene(whole(body, status=status)) as at:
        at.ask()
        assert fault_of(at).code == "provider_payment_required"


STREAMED = {
    "anthropic streamed": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "responses streamed": {
        "type": "response.failed",
        "response": {"error": {"code": "server_is_overloaded", "message": "Overloaded"}},
    },
    "chat streamed": {"error": {"code": 529, "message": "Overloaded"}},
    "gemini streamed": {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}},
}


@pytest.mark.parametrize("name", STREAMED)
def test_an_error_inside_of_a_stream_is_a_trouble(name: str) -> None:
    family = FAMILIES[name]
    with scene(streamed(*events({"type": "ping"}, STREAMED[name])), of=family.provider) as at:
        at.ask_as(family)
        fault = fault_of(at, family.provider)
    assert (fault.code, fault.message) == (
        "provider_overloaded",
        f"{family.provider} is overloaded. It says: Overloaded",
    )


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("end", [(), (BREAK,)], ids=["ended", "broken"])
def test_a_stream_without_its_end_is_cut_off_and_its_tokens_count(name: str, end: tuple[str, ...]) -> None:
    family = FAMILIES[name]
    first = family.answer.parts[0]
    with scene(streamed(first, *end), of=family.provider) as at:
        try_to_ask(at, family)
        fault, report = fault_of(at, family.provider), at.meter.report()
    assert (fault.code, fault.message) == ("provider_answer_cut_off", f"{family.provider} broke off its answer.")
    assert (report.estimated, bool(report.usage.total_tokens)) == (1, True)


def try_to_ask(at: Scene, family: Family) -> None:
    """Ask; the answer may break."""
    try:
        at.ask_as(family)
    except httpx2.TransportError:
        return


MALFORMED = {
    "a page": (Answer(parts=(HTML,), headers={"content-type": "text/html"}), "Sign in Who are you ?"),
    "half of a text": (
        Answer(parts=(b'{"type": "mess',), headers={"content-type": "application/json"}),
        '{"type": "mess',
    ),
    "nothing": (Answer(parts=(), headers={"content-type": "application/json"}), "It is empty."),
    "a stream of something else": (streamed(b"hello\n\n"), "hello"),
}


@pytest.mark.parametrize(("answer", "words"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_the_answer_of_a_model_is_shown_by_its_beginning(answer: Answer, words: str) -> None:
    with scene(answer if answer.parts else Answer(parts=(b" ",), headers=answer.headers)) as at:
        at.ask()
        fault = fault_of(at)
    assert (fault.code, fault.message) == (
        "provider_answer_malformed",
        f"anthropic sent an answer that is not that of a model. It says: {words}",
    )


def test_a_provider_that_cannot_be_reached_or_is_silent_is_called_so() -> None:
    with scene(whole(MESSAGE)) as at:
        at.provider.shutdown()
        at.provider.server_close()
        assert at.ask().status_code == 502
        host = f"127.0.0.1:{at.provider.server_port}"
        assert fault_of(at).message == f"anthropic cannot be reached: {host} refuses the connection."
    with scene(Answer(parts=(HANG,)), timeouts=RequestTimeouts(silence_seconds=0.2)) as at:
        assert at.ask().status_code == 504
        host = f"127.0.0.1:{at.provider.server_port}"
        assert fault_of(at).message == f"anthropic did not answer in time: {host} was silent for 0.2 seconds."
    drips = streamed(*events({"type": "ping"}), HANG)
    with scene(drips, timeouts=RequestTimeouts(seconds=0.5)) as at:
        try_to_ask(at, FAMILIES["anthropic streamed"])
        late = f"no whole answer from 127.0.0.1:{at.provider.server_port} within 0.5 seconds"
        assert fault_of(at).message == f"anthropic did not answer in time: {late}."


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (f"http://me:{KEY}@models.invalid:81/{KEY}", "the name models.invalid:81 is not known"),
        (f"http://{KEY}:x", "no connection to an address that cannot be read"),
        (f"{KEY}", "no connection to an address without a host"),
    ],
)
def test_an_address_that_leads_nowhere_is_named_without_what_is_secret_in_it(address: str, words: str) -> None:
    upstream = ProviderEndpoint(provider="anthropic", base_url=address, key=KEY)
    with open_meter(upstream, prices=Prices({})) as meter:
        asked = {"model": "claude-sonnet-4-5", "max_tokens": 1, "messages": []}
        with httpx2.Client(headers={"x-api-key": meter.placeholder_key}) as client:
            client.post(f"{meter.base_url}/v1/messages", json=asked)
        trouble = meter.report().trouble
    assert trouble is not None
    assert (trouble.kind, trouble.words) == ("provider_unreachable", words)


@pytest.mark.parametrize(
    ("told_time", "seconds", "moment"),
    [
        ("7", 7.0, ""),
        ("-7", None, ""),
        ("9" * 40, None, ""),
        ("soon", None, ""),
        ("Fri, 01 Jan 1999 12:00:00 GMT", None, "1999-01-01T12:00:00.000Z"),
    ],
)
def test_the_time_that_the_provider_tells_is_read_and_nonsense_is_not(
    told_time: str, seconds: float | None, moment: str
) -> None:
    with scene(whole({}, status=429, **{"retry-after": told_time})) as at:
        at.ask()
    assert at.meter.report().trouble == Trouble(
        kind="model_quota_reached", status=429, words="{}", retry_after_seconds=seconds, retry_at=moment
    )


def test_the_words_are_short_have_no_key_and_a_huge_refusal_is_read_only_at_its_beginning() -> None:
    body = json.dumps({"error": {"message": f"The key {KEY} is wrong. " + "x" * 1000}}).encode()
    with scene(Answer(parts=(body,), status=401), Answer(parts=(b"y" * (1 << 20),) * 50, status=500)) as at:
        at.ask()
        trouble = at.meter.report().trouble
        assert trouble is not None
        assert (KEY in trouble.words, len(trouble.words)) == (False, 301)
        assert len(at.ask().content) == 1 << 20
        assert at.meter.report().trouble == Trouble(kind="provider_failed", status=500, words="y" * 300 + "…")


ENDINGS = {
    "a rejected key": ([401], True),
    "a limit before the first answer": ([429], True),
    "one error of the provider": ([500], False),
    "three errors in a row": ([500, 502, 500], True),
    "errors with an answer in between": ([500, 500, 200, 500], False),
    "a limit after an answer": ([200, 429], False),
    "a provider that alternates": ([200, 429, 200, 429, 200, 429], False),
    "three limits in a row": ([200, 429, 429, 429], True),
    "a request that is refused for itself": ([400], False),
}


@pytest.mark.parametrize(("statuses", "is_ended"), ENDINGS.values(), ids=ENDINGS)
def test_a_turn_is_ended_when_trying_again_in_it_does_not_help(statuses: list[int], *, is_ended: bool) -> None:
    answers = [whole(MESSAGE if status == 200 else {}, status=status) for status in statuses]
    with scene(*answers) as at:
        said = [at.ask() for _ in statuses]
        assert bool(at.meter.ends_early(lambda _silent: "")(0.0)) is is_ended
    assert (said[-1].headers.get("x-should-retry") == "false") is is_ended


def test_a_long_time_that_the_provider_names_ends_the_turn_after_an_answer_too() -> None:
    with scene(whole(MESSAGE), whole({}, status=429, **{"retry-after": "61"})) as at:
        at.ask()
        at.ask()
        assert at.meter.ends_early(lambda _silent: "")(0.0) == "The provider of its model is in trouble."


def test_a_turn_whose_time_ends_before_the_first_answer_names_the_provider() -> None:
    stopped = AgentTimedOut("The agent was stopped: It did not end within 10 seconds.")
    with scene(streamed(*events({"type": "ping"}), HANG)) as at:
        asking = threading.Thread(target=try_to_ask, args=(at, FAMILIES["anthropic streamed"]))
        asking.start()
        until(lambda: bool(at.provider.heard))
        fault = clearest_fault(stopped, at.meter.report(), "anthropic")
    # The end of the meter ends the request.
    asking.join()
    assert (fault.code, fault.message) == (
        "provider_timed_out",
        f"anthropic did not answer in time: no whole answer from 127.0.0.1:{at.provider.server_port} within the time of"
        " the turn. The agent was stopped: It did not end within 10 seconds.",
    )


def test_with_a_meter_the_words_of_an_agent_are_no_trouble_of_the_provider() -> None:
    said = AgentNotLoggedIn("It has no key.", last_lines=["Please run /login"], exit_code=1)
    with scene(whole(MESSAGE)) as at:
        at.ask()
        fault = clearest_fault(said, at.meter.report(), "anthropic")
    assert (type(fault), fault.message) == (AgentFailed, "The agent failed. It says: Please run /login")


def fault_of(at: Scene, provider: str = "anthropic") -> NoUsableAnswer:
    """Return the fault of a turn that brought nothing."""
    return clearest_fault(NoUsableAnswer("The agent ended without a submission."), at.meter.report(), provider)
