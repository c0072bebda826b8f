"""Conformance suite of the model port: endpoints, the script and the recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.brains.budgets import Limit, LoopLimits, LoopUsage
from aop.brains.conversation import Offer, Reply, Request, Turn, UserText
from aop.brains.model_brain import ANSWER
from aop.brains.ports import FINISH, Called, Finished, LimitReached, Mission, News, Observed, Replied, Talked
from aop.core.errors import ModelAnswerInvalid
from tests.brains.endpoints import Step
from tests.brains.subjects import COST, FIVE, FIVE_GIVEN, QUESTION, SUBJECTS, USAGE, Sum, brain_on, playing, waited

ANSWERED = Step(calls=((ANSWER, FIVE_GIVEN),))
FINISHED = Step(calls=((FINISH, FIVE_GIVEN),))
MISSION = Mission(prompt=QUESTION, result=Sum)

pytestmark = pytest.mark.parametrize("subject", SUBJECTS)


class Weather:
    """Two tools, one of which has a dot in its name."""

    offers: Sequence[Offer] = tuple(
        Offer(
            name=name,
            description="Say how it is.",
            schema={"type": "object", "properties": {"city": {"type": "string"}}},
        )
        for name in ("weather.now", "tide")
    )

    def __init__(self) -> None:
        self.executed: list[tuple[str, Mapping[str, Any]]] = []

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.executed.append((name, arguments))
        return f"sunny in {arguments['city']}"


class NoTools:
    """Nothing to call but the end."""

    offers: Sequence[Offer] = ()

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        raise AssertionError(name)


def test_an_answer_of_the_shape_comes_with_its_tokens_and_cost(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, ANSWERED) as model:
        answer = waited(brain_on(model).generate_structured(QUESTION, Sum))
        assert (answer.value, answer.model, answer.usage, answer.cost_usd, answer.calls, answer.passed_over) == (
            FIVE, model.names[0], USAGE, COST, 1, (),
        )  # fmt: skip


def test_text_in_place_of_an_answer_is_refused(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, Step(text="It is five, of course.")) as model:
        with pytest.raises(ModelAnswerInvalid) as refused:
            waited(brain_on(model).generate_structured(QUESTION, Sum))
        assert (refused.value.facts["calls"], refused.value.facts["cost_usd"]) == (1, COST)


def test_nothing_in_place_of_an_answer_can_be_repaired_too(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, Step(), ANSWERED) as model:
        assert waited(brain_on(model).generate_structured(QUESTION, Sum, repairs=1)).value == FIVE


def test_an_answer_that_is_not_of_the_shape_is_refused(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, Step(calls=((ANSWER, {"total": "5", "word": "five"}),))) as model:
        with pytest.raises(ModelAnswerInvalid) as refused:
            waited(brain_on(model).generate_structured(QUESTION, Sum))
        assert refused.value.message == "The answer is not a valid `Sum`: Expected `int`, got `str` - at `$.total`."


def test_an_answer_is_asked_for_again_where_repairs_are_allowed(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, Step(calls=((ANSWER, {"total": 5}),)), ANSWERED) as model:
        answer = waited(brain_on(model).generate_structured(QUESTION, Sum, repairs=1))
        assert (answer.value, answer.calls, answer.usage, answer.cost_usd) == (FIVE, 2, USAGE.plus(USAGE), 2 * COST)


def test_tokens_that_are_not_reported_are_unknown_and_so_is_the_cost(subject: str, tmp_path: Path) -> None:
    with playing(subject, tmp_path, Step(calls=((ANSWER, FIVE_GIVEN),), usage=False)) as model:
        answer = waited(brain_on(model).generate_structured(QUESTION, Sum))
        assert (answer.usage.total_tokens, answer.cost_usd) == (None, None)


@pytest.mark.req("SCAF-09", "SCAF-80")
def test_python_carries_out_the_calls_and_the_model_sees_what_came_of_them(subject: str, tmp_path: Path) -> None:
    tools, journal = Weather(), list[Replied | Called | Observed]()
    steps = [Step(text="Let me look.", calls=(("weather_now", {"city": "Oslo"}),)), FINISHED]
    with playing(subject, tmp_path, *steps) as model:
        outcome = waited(brain_on(model).run_agentic_loop(MISSION, tools, LoopLimits(), journal.append))
        assert isinstance(outcome, Finished)
        assert (outcome.value, outcome.spent.iterations, outcome.spent.usage) == (FIVE, 2, USAGE.plus(USAGE))
        assert tools.executed == [("weather.now", {"city": "Oslo"})]
        reply = Replied(model=model.names[0], text="Let me look.", usage=USAGE, cost_usd=COST)
        assert journal[:3] == [
            reply,
            Called(tool="weather.now", arguments=journal[1].arguments if isinstance(journal[1], Called) else ""),
            Observed(tool="weather.now", ok=True, text="sunny in Oslo"),
        ]


@pytest.mark.req("FORGE-141")
def test_a_tool_that_there_is_not_is_said_to_the_model_and_the_loop_goes_on(subject: str, tmp_path: Path) -> None:
    tools, journal = Weather(), list[Replied | Called | Observed]()
    with playing(subject, tmp_path, Step(calls=(("rm", {"city": "Oslo"}),)), FINISHED) as model:
        outcome = waited(brain_on(model).run_agentic_loop(MISSION, tools, LoopLimits(), journal.append))
        assert isinstance(outcome, Finished)
        assert tools.executed == []
        told = "[unknown_tool] There is no tool `rm`. Call one of: hand_in_result, tide, weather_now."
        assert Observed(tool="rm", ok=False, text=told) in journal


def test_a_reply_without_a_call_ends_the_loop_with_its_text(subject: str, tmp_path: Path) -> None:
    mission = Mission(prompt=QUESTION, result=Sum, text_allowed=True)
    with playing(subject, tmp_path, Step(text="I am done.")) as model:
        outcome = waited(brain_on(model).run_agentic_loop(mission, Weather(), LoopLimits(), _unheard))
        assert isinstance(outcome, Talked)
        assert (outcome.text, outcome.spent.iterations) == ("I am done.", 1)


@pytest.mark.req("SCAF-80")
def test_a_model_that_never_ends_is_ended_after_so_many_replies(subject: str, tmp_path: Path) -> None:
    looking = [Step(calls=(("tide", {"city": f"Oslo {at}"}),)) for at in range(3)]
    with playing(subject, tmp_path, *looking) as model:
        outcome = waited(brain_on(model).run_agentic_loop(MISSION, Weather(), LoopLimits(max_iterations=3), _unheard))
        assert isinstance(outcome, LimitReached)
        assert (outcome.limit, outcome.spent.iterations) == (Limit.ITERATIONS, 3)
        assert outcome.spent.usage == USAGE.plus(USAGE).plus(USAGE)


def _refuse_all_but_five(value: Sum) -> None:
    if value != FIVE:
        raise ModelAnswerInvalid(f"{value.total} is wrong.", hint="Add again.")


@pytest.mark.req("FORGE-135")
def test_a_result_that_the_mission_refuses_is_told_and_the_next_one_ends_the_loop(subject: str, tmp_path: Path) -> None:
    mission = Mission(prompt=QUESTION, result=Sum, finish="submit_sum", check=_refuse_all_but_five)
    steps = [Step(calls=(("submit_sum", {"total": 6, "word": "six"}),)), Step(calls=(("submit_sum", FIVE_GIVEN),))]
    journal = list[Replied | Called | Observed]()
    with playing(subject, tmp_path, *steps) as model:
        outcome = waited(brain_on(model).run_agentic_loop(mission, Weather(), LoopLimits(), journal.append))
        assert isinstance(outcome, Finished)
        assert (outcome.value, outcome.spent.iterations, outcome.spent.usage) == (FIVE, 2, USAGE.plus(USAGE))
        told = "[model_answer_invalid] 6 is wrong. Add again."
        assert [event for event in journal if isinstance(event, Observed)] == [
            Observed(tool="submit_sum", ok=False, text=told)
        ]


def test_a_loop_without_tools_ends_by_its_result_too(subject: str, tmp_path: Path) -> None:
    mission = Mission(prompt=QUESTION, result=Sum, finish="submit_sum", check=_refuse_all_but_five)
    steps = [Step(calls=(("submit_sum", {"total": 6, "word": "six"}),)), Step(calls=(("submit_sum", FIVE_GIVEN),))]
    with playing(subject, tmp_path, *steps) as model:
        outcome = waited(brain_on(model).run_agentic_loop(mission, NoTools(), LoopLimits(), _unheard))
        assert isinstance(outcome, Finished)
        assert (outcome.value, outcome.spent.iterations) == (FIVE, 2)


@pytest.mark.req("FORGE-139")
def test_text_without_a_call_ends_the_loop_only_if_it_is_a_result(subject: str, tmp_path: Path) -> None:
    mission = Mission(prompt=QUESTION, result=Sum, from_text=lambda text: FIVE if text == "five" else None)
    with playing(subject, tmp_path, Step(text="I am sorry."), Step(text="five")) as model:
        outcome = waited(brain_on(model).run_agentic_loop(mission, Weather(), LoopLimits(), _unheard))
        assert isinstance(outcome, Finished)
        assert (outcome.value, outcome.spent.iterations) == (FIVE, 2)


def test_a_loop_that_is_steered_is_told_what_comes_next_until_its_steering_ends_it(
    subject: str, tmp_path: Path
) -> None:
    seen: list[Sequence[Turn]] = []

    async def steer(turns: Sequence[Turn], spent: LoopUsage) -> News:
        seen.append(turns)
        if spent.iterations == 3:
            return News(ended=True)
        return News(messages=(f"Go on with step {spent.iterations + 1}.",) if spent.iterations != 1 else ())

    mission = Mission(prompt=QUESTION, result=Sum, finish="", steering=steer)
    steps = [Step(text="I plan."), Step(text="Look.", calls=(("tide", {"city": "Oslo"}),)), Step(text="I am done.")]
    tools, requests = Weather(), list[Request]()
    mission = msgspec.structs.replace(mission, watch=requests.append)
    with playing(subject, tmp_path, *steps) as model:
        outcome = waited(brain_on(model).run_agentic_loop(mission, tools, LoopLimits(), _unheard))
    assert isinstance(outcome, Talked)
    assert (outcome.text, outcome.spent.iterations, tools.executed) == ("I am done.", 3, [("tide", {"city": "Oslo"})])
    assert {(request.answer, request.text_allowed) for request in requests} == {(None, True)}
    said = [[turn.text for turn in turns if isinstance(turn, UserText | Reply)] for turns in seen]
    first, nudge = [QUESTION.text, "Go on with step 1."], "You called no tool. Call a tool."
    assert said == [
        [QUESTION.text],
        [*first, "I plan."],
        [*first, "I plan.", nudge, "Look."],
        [*first, "I plan.", nudge, "Look.", "Go on with step 3.", "I am done."],
    ]


def _unheard(_: object) -> None:
    """Keep no journal."""
