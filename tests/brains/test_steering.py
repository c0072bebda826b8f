"""Steering: messages, compaction and the end of a loop that is led from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from aop.brains.budgets import Limit, LoopLimits, LoopUsage
from aop.brains.conversation import Observation, Reply, Turn, UserText
from aop.brains.ports import Finished, LimitReached, Mission, ModelFailed, News, Outcome, Steering, Talked
from aop.brains.tool_loop import CUT_OFF
from aop.core.errors import Fault, Json, ModelUnavailable
from aop.testing.scripted_model import ScriptedModel, answers, breaks_off, calls, says
from tests.brains.subjects import FIVE, QUESTION, Sum, brain_on, waited
from tests.brains.test_tool_loop import Desk

SECRET = "correct-horse-battery"


def steered(
    model: ScriptedModel, steering: Steering, *, finish: str = "", limits: LoopLimits | None = None, **words: Any
) -> Outcome[Sum]:
    mission = Mission(prompt=QUESTION, result=Sum, finish=finish, steering=steering)
    once = words.pop("once", None)
    brain, further = brain_on(model, **words), {} if once is None else {"once": once}
    return waited(brain.run_agentic_loop(mission, Desk(), limits or LoopLimits(), lambda _: None, **further))


async def be_silent(_turns: Sequence[Turn], _spent: LoopUsage) -> News:
    return News()


class _Stopped(Exception):
    """The steering ended the loop."""


def test_the_same_news_come_after_an_interruption_and_the_steering_is_not_asked_again() -> None:
    recorded: dict[str, Any] = {}
    asked: list[int] = []

    async def once(name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        if name not in recorded:
            recorded[name] = await do()
        known: Json = recorded[name]
        return known

    async def steer(_turns: Sequence[Turn], spent: LoopUsage) -> News:
        asked.append(spent.iterations)
        return News(messages=(f"News {len(asked)}.",), ended=spent.iterations == 2)

    with pytest.raises(Fault, match="script ends"):
        steered(ScriptedModel([calls(("do", {}))]), steer, once=once)
    assert (list(recorded), asked) == (["news_1", "reply_1", "call_1_1", "news_2"], [0, 1])
    second = ScriptedModel([says("Done.")])
    assert isinstance(steered(second, steer, once=once), Talked)
    said = [turn.text for turn in second.asked[0].turns if isinstance(turn, UserText)]
    assert (said, asked) == ([QUESTION.text, "News 1.", "News 2."], [0, 1, 2])


def test_a_conversation_that_was_compacted_goes_on_from_its_summary() -> None:
    async def steer(turns: Sequence[Turn], spent: LoopUsage) -> News:
        if spent.iterations != 2:
            return News(ended=spent.iterations == 3)
        return News(conversation=(turns[0], UserText(text="In short."), *turns[-2:]), messages=("Go on.",))

    model = ScriptedModel([calls(("do", {}), text="first"), calls(("do", {}), text="second"), says("third")])
    steered(model, steer)
    first, summary, reply, shown, message = model.asked[2].turns
    assert (first, summary, message) == (
        UserText(text=QUESTION.text), UserText(text="In short."), UserText(text="Go on."),
    )  # fmt: skip
    assert isinstance(reply, Reply)
    assert isinstance(shown, Observation)
    assert (reply.text, shown.call_id) == ("second", reply.calls[0].call_id)


def test_what_the_steering_says_reaches_the_model_without_secrets() -> None:
    async def steer(_turns: Sequence[Turn], spent: LoopUsage) -> News:
        return News(messages=(f"The password is {SECRET}.",), ended=spent.iterations == 1)

    model = ScriptedModel([says("Good.")])
    steered(model, steer, secrets=(SECRET,))
    assert SECRET not in repr(model.asked)


@pytest.mark.parametrize("reply", [says(""), breaks_off("=== PHASE")], ids=["an empty reply", "one that was cut off"])
def test_a_reply_that_cannot_be_used_is_left_out_and_the_loop_goes_on(reply: Any) -> None:
    async def steer(_turns: Sequence[Turn], spent: LoopUsage) -> News:
        return News(ended=spent.iterations == 2)

    model = ScriptedModel([reply, says("Again.")])
    outcome = steered(model, steer)
    assert isinstance(outcome, Talked)
    told = model.asked[1].turns
    nudge = "You called no tool. Call a tool."
    assert (outcome.text, told[0].text, told[1].text in (nudge, CUT_OFF), len(told)) == (
        "Again.", QUESTION.text, True, 2,
    )  # fmt: skip


def test_a_reply_that_was_cut_off_has_none_of_its_calls_carried_out() -> None:
    def cut(request: Any) -> Reply:
        return Reply(model="m", calls=calls(("do", {}))(request).calls, cut_off=True)

    desk = Desk()
    mission = Mission(prompt=QUESTION, result=Sum, steering=be_silent)
    model = ScriptedModel([cut, answers(FIVE)])
    outcome = waited(brain_on(model).run_agentic_loop(mission, desk, LoopLimits(max_iterations=2), lambda _: None))
    assert isinstance(outcome, Finished)
    assert (outcome.value, desk.executed, model.asked[1].turns[-1]) == (FIVE, 0, UserText(text=CUT_OFF))


def test_talk_does_not_end_it_but_its_limits_do() -> None:
    outcome = steered(ScriptedModel([says("Well.")] * 4), be_silent, limits=LoopLimits(max_iterations=4))
    assert isinstance(outcome, LimitReached)
    assert (outcome.limit, outcome.spent.iterations) == (Limit.ITERATIONS, 4)


def test_a_steered_loop_can_hand_in_a_result_too() -> None:
    outcome = steered(ScriptedModel([says("Wait."), answers(FIVE)]), be_silent, finish="submit_sum")
    assert isinstance(outcome, Finished)
    assert outcome.value == FIVE


def test_without_a_tool_that_ends_it_no_name_passes_for_one() -> None:
    model = ScriptedModel([calls(("", {"total": 5, "word": "five"}))])
    outcome = steered(model, be_silent, limits=LoopLimits(max_iterations=1))
    assert isinstance(outcome, LimitReached)


def test_what_the_steering_raises_ends_the_loop_and_is_not_kept() -> None:
    async def steer(_turns: Sequence[Turn], spent: LoopUsage) -> News:
        raise _Stopped

    kept: dict[str, Any] = {}

    async def once(name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        kept[name] = await do()
        done: Json = kept[name]
        return done

    with pytest.raises(_Stopped):
        steered(ScriptedModel([]), steer, once=once)
    assert kept == {}


def test_a_model_that_fails_ends_a_steered_loop_too() -> None:
    outcome = steered(ScriptedModel([ModelUnavailable("Away.")]), be_silent)
    assert isinstance(outcome, ModelFailed)
