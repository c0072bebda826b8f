"""Fallback lists: the model that answers, and those that are passed over."""

from __future__ import annotations

import pytest

from aop.brains.conversation import PassedOver
from aop.brains.fallback import FallbackModel
from aop.core.errors import (
    Fault,
    ModelAnswerInvalid,
    ModelContextExceeded,
    ModelKeyRejected,
    ModelRateLimited,
    ModelReplyCutOff,
    ModelReplyUnreadable,
    ModelRequestRejected,
    ModelTimeout,
    ModelUnavailable,
    ModelUnreachable,
    Refusal,
)
from aop.testing.scripted_model import ScriptedModel, answers, says
from tests.brains.subjects import FIVE, QUESTION, asked_with


def refusing(refusal: type[Refusal], name: str = "a:first") -> ScriptedModel:
    return ScriptedModel([refusal("No.")], name=name)


@pytest.mark.parametrize("refusal", [ModelUnreachable, ModelRateLimited, ModelUnavailable])
def test_the_next_model_answers_when_one_cannot_be_had_and_that_is_said(refusal: type[Refusal]) -> None:
    second = ScriptedModel([answers(FIVE)], name="b:second")
    answer = asked_with(QUESTION, FallbackModel([refusing(refusal), second]))
    assert (answer.value, answer.model, answer.passed_over) == (
        FIVE, "b:second", (PassedOver(model="a:first", code=refusal.code),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "refusal",
    [
        ModelContextExceeded,
        ModelKeyRejected,
        ModelReplyCutOff,
        ModelReplyUnreadable,
        ModelRequestRejected,
        ModelTimeout,
    ],
)
def test_no_other_model_is_asked_for_what_is_wrong_with_the_request_or_the_settings(refusal: type[Refusal]) -> None:
    second = ScriptedModel([answers(FIVE)], name="b:second")
    with pytest.raises(refusal):
        asked_with(QUESTION, FallbackModel([refusing(refusal), second]))
    assert second.asked == []


def test_a_bad_answer_of_a_model_that_works_is_not_tried_with_another() -> None:
    second = ScriptedModel([answers(FIVE)], name="b:second")
    with pytest.raises(ModelAnswerInvalid):
        asked_with(QUESTION, FallbackModel([ScriptedModel([says("Five.")]), second]))
    assert second.asked == []


def test_when_none_can_be_had_the_last_refusal_names_those_before() -> None:
    models = [refusing(ModelRateLimited), refusing(ModelUnavailable, "b:second"), refusing(ModelUnreachable, "c:last")]
    with pytest.raises(ModelUnreachable) as refused:
        asked_with(QUESTION, FallbackModel(models))
    assert refused.value.facts["passed_over"] == [
        {"model": "a:first", "code": "model_rate_limited"},
        {"model": "b:second", "code": "model_unavailable"},
    ]


def test_a_list_of_none_is_a_breakage() -> None:
    with pytest.raises(Fault):
        FallbackModel([])
