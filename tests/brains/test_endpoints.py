"""Endpoints: the requests to each family, and the refusal for each failure."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest

from aop.adapters.machine.clock import SystemClock
from aop.brains.budgets import CallLimits, LoopLimits
from aop.brains.fallback import FallbackModel
from aop.brains.model_brain import ANSWER, ModelBrain
from aop.brains.ports import FINISH, Finished, Mission
from aop.core.errors import Refusal
from aop.core.redaction.redactor import Redactor
from tests.brains.endpoints import FAMILIES, Step, serving
from tests.brains.subjects import (
    FIVE,
    FIVE_GIVEN,
    KEY,
    MODELS,
    PRICES,
    QUESTION,
    Sum,
    asked_with,
    brain_on,
    remote,
    waited,
)
from tests.brains.test_conformance import Weather

ANSWERED = Step(calls=((ANSWER, FIVE_GIVEN),))
TOO_LONG = {
    "anthropic": '{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9"}}',
    "google": '{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the'
    ' maximum number of tokens allowed (8)."}}',
}
TOO_LONG["vertex"] = TOO_LONG["google"]
OPENAI_TOO_LONG = '{"error": {"code": "context_length_exceeded", "message": "maximum context length", "type": "x"}}'
ECHOES = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "code": 400, "message": f"no: {KEY}"}})

FAILURES = {
    "the key is rejected": (Step(status=401), "model_key_rejected"),
    "there are too many requests": (Step(status=429, headers={"retry-after": "7"}), "model_rate_limited"),
    "the provider breaks": (Step(status=500), "model_unavailable"),
    "the provider is away": (Step(status=503), "model_unavailable"),
    "the request is rejected": (Step(status=400), "model_request_rejected"),
    "a page comes back": (Step(body="<html>Welcome</html>"), "model_reply_unreadable"),
    "a body of text comes back": (
        Step(body="hello", headers={"content-type": "text/plain"}),
        "model_reply_unreadable",
    ),
    "a body is nested too deeply": (Step(body="[" * 5000 + "]" * 5000), "model_reply_unreadable"),
    "a body is compressed by its own word alone": (
        Step(text="It is", headers={"content-encoding": "gzip"}),
        ("model_unreachable", "model_reply_unreadable"),
    ),
    "half a reply comes back": (Step(text="It is", half=True), "model_reply_cut_off"),
    "the model declines": (Step(text="I will not", declined=True), "model_request_rejected"),
    "the reply is longer than allowed": (Step(text="It is", cut_off=True), "model_reply_cut_off"),
}


@pytest.mark.series(16)
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize(("step", "code"), FAILURES.values(), ids=FAILURES)
def test_it_is_named_when(family: str, step: Step, code: str | tuple[str, ...]) -> None:
    with serving(family, step) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server))
    assert refused.value.code in ((code,) if isinstance(code, str) else code)
    assert (refused.value.facts["model"], len(server.heard)) == (MODELS[family], 1)


@pytest.mark.parametrize("family", MODELS)
def test_a_prompt_that_is_too_long_is_named(family: str) -> None:
    step = Step(status=400, body=TOO_LONG.get(family, OPENAI_TOO_LONG))
    with serving(family, step) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server))
    assert refused.value.code == "model_context_exceeded"


@pytest.mark.parametrize("family", MODELS)
def test_how_long_the_provider_asks_to_wait_is_said(family: str) -> None:
    step = Step(status=429, headers={"retry-after": "7"})
    with serving(family, step) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server))
    assert refused.value.facts["retry_after_seconds"] == 7.0


@pytest.mark.parametrize("family", MODELS)
def test_an_endpoint_that_is_not_there_is_named(family: str) -> None:
    with serving(family, ANSWERED) as server:
        model = remote(family, server)
    with pytest.raises(Refusal) as refused:
        asked_with(QUESTION, model)
    assert refused.value.code == "model_unreachable"


@pytest.mark.parametrize("family", MODELS)
def test_an_endpoint_that_never_answers_is_given_up(family: str) -> None:
    with serving(family, Step(hangs=True)) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server), timeout=3)
    assert refused.value.code == "model_timeout"


def test_an_endpoint_that_answers_a_little_at_a_time_and_never_ends_is_given_up() -> None:
    dripping = Step(drips=True, headers={"content-length": "100000000"})
    with serving("anthropic", dripping) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote("anthropic", server), timeout=2.0)
    assert refused.value.code == "model_timeout"


@pytest.mark.parametrize(("family", "place"), [("anthropic", "content"), ("openai", "output")])
def test_a_call_whose_arguments_are_a_list_is_no_reply(family: str, place: str) -> None:
    said = FAMILIES[family](ANSWERED, {"model": "m"})
    said[place][0] |= {"input": [1], "arguments": [1]}
    with serving(family, Step(body=json.dumps(said))) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server))
    assert refused.value.code == "model_reply_unreadable"


@pytest.mark.parametrize("family", MODELS)
def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(family: str) -> None:
    with serving(family, ANSWERED) as elsewhere:
        step = Step(status=307, headers={"location": elsewhere.url}, body="")
        with serving(family, step) as server, pytest.raises(Refusal) as refused:
            asked_with(QUESTION, remote(family, server))
        assert (refused.value.code, len(server.heard), elsewhere.heard) == ("model_reply_unreadable", 1, [])


@pytest.mark.series(8)
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.hostile("K09")
def test_a_key_that_the_provider_repeats_is_in_no_error(family: str, status: int) -> None:
    with serving(family, Step(status=status, body=ECHOES)) as server, pytest.raises(Refusal) as refused:
        asked_with(QUESTION, remote(family, server))
    seen = "".join(traceback.format_exception(refused.value)) + json.dumps(refused.value.as_error())
    assert KEY in server.heard[0].headers.get("x-api-key", "") + json.dumps(dict(server.heard[0].headers))
    assert KEY not in seen + repr(remote(family, server)) + repr(vars(remote(family, server))["_endpoint"])


@pytest.mark.parametrize("family", MODELS)
def test_a_second_try_is_made_where_it_is_allowed(family: str) -> None:
    with serving(family, Step(status=500), ANSWERED) as server:
        answer = asked_with(QUESTION, remote(family, server, retries=1))
    assert (answer.value, len(server.heard)) == (FIVE, 2)


@pytest.mark.parametrize("family", MODELS)
def test_the_second_request_holds_the_whole_conversation(family: str) -> None:
    steps = [Step(text="Let me look.", calls=(("weather_now", {"city": "Oslo"}),)), Step(calls=((FINISH, FIVE_GIVEN),))]
    with serving(family, *steps) as server:
        mission = Mission(prompt=QUESTION, result=Sum)
        running = brain_on(remote(family, server)).run_agentic_loop(mission, Weather(), LoopLimits(), lambda _: None)
        assert isinstance(waited(running), Finished)
    first, second = (json.dumps(heard.body) for heard in server.heard)
    assert [word in first for word in ("Add 2 and 3.", "weather_now", "hand_in_result", "sunny in Oslo")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert [word in second for word in ("Add 2 and 3.", "Let me look.", "weather_now", "sunny in Oslo")] == [True] * 4
    assert ("c2lnbmVk" in second) == (family in ("google", "vertex"))


def test_the_stable_part_of_a_prompt_is_marked_for_the_cache_where_the_provider_has_marks() -> None:
    with serving("anthropic", ANSWERED) as server:
        asked_with(QUESTION, remote("anthropic", server))
    assert server.heard[0].body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


@pytest.mark.parametrize("family", ["ollama", "vllm"])
def test_an_answer_in_text_is_corrected_in_text(family: str) -> None:
    with serving(family, Step(calls=((ANSWER, {"total": 5}),)), ANSWERED) as server:
        waited(brain_on(remote(family, server)).generate_structured(QUESTION, Sum, repairs=1))
    roles = [message["role"] for message in server.heard[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_another_provider_takes_a_conversation_over() -> None:
    looking = Step(text="Let me look.", calls=(("weather_now", {"city": "Oslo"}),))
    finishing, mission = Step(calls=((FINISH, FIVE_GIVEN),)), Mission(prompt=QUESTION, result=Sum)
    with serving("google", looking, Step(status=429)) as first, serving("anthropic", finishing) as second:
        both = FallbackModel([remote("google", first), remote("anthropic", second)])
        outcome = waited(brain_on(both).run_agentic_loop(mission, Weather(), LoopLimits(), lambda _: None))
    assert isinstance(outcome, Finished)
    told = json.dumps(second.heard[0].body["messages"])
    assert [word in told for word in ("Let me look.", "weather_now", "sunny in Oslo", "c2lnbmVk")] == [
        True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "place", "sent"),
    [("openai", "reasoning", {"effort": "low"}), ("anthropic", "output_config", {"effort": "low"})],
)
def test_how_hard_to_think_is_said_where_the_model_has_a_choice(family: str, place: str, sent: Any) -> None:
    with serving(family, ANSWERED) as server:
        limits = CallLimits(thinking="low")
        brain = ModelBrain(remote(family, server), PRICES, SystemClock(), Redactor(), limits)
        waited(brain.generate_structured(QUESTION, Sum))
    assert {name: server.heard[0].body[place].get(name) for name in sent} == sent


def test_openai_is_told_to_keep_nothing() -> None:
    with serving("openai", ANSWERED) as server:
        asked_with(QUESTION, remote("openai", server))
    assert server.heard[0].body["store"] is False


def test_a_secret_of_ours_does_not_go_out_in_a_prompt() -> None:
    secret = "hunter2-hunter2"
    question = type(QUESTION)(instructions="Add.", text=f"The password is {secret}.", fence=QUESTION.fence)
    with serving("compatible", ANSWERED) as server:
        asked_with(question, remote("compatible", server, redact=Redactor([secret])), secrets=(secret,))
    assert secret not in json.dumps(server.heard[0].body)
