"""Why a feature waits, and the command of a person, decided from the record."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import Question
from aop.kernel.tools.report.standings import Situation, Standing, features_in_reason, standing_of


def question(number: int, **facts: Any) -> Question:
    return Question(
        version=1,
        question_id=f"q{number}",
        feature_id=FeatureId("one"),
        gate="question",
        text="Which\n colour?",
        asked_by="planner:one",
        asked_at="2026-01-02T03:04:05.678Z",
        **facts,
    )


@pytest.mark.parametrize(
    ("facts", "waits", "command"),
    [
        pytest.param({"status": Status.BUILDING}, "", "", id="it goes on"),
        pytest.param({"status": Status.MERGED, "reason": "Old."}, "", "", id="merged"),
        pytest.param({"asks": (question(1),)}, "q1: Which colour?", "aop answer q1 TEXT", id="a question"),
        pytest.param(
            {"asks": (question(1, choices=("yes", "no")),)}, "q1: Which colour?", "aop answer q1 yes|no", id="choices"
        ),
        pytest.param(
            {"asks": (question(1), question(2), question(3)), "pause": "all"},
            "q1: Which colour? (and 2 more questions: aop inbox)",
            "aop answer q1 TEXT",
            id="three questions",
        ),
        pytest.param({"out_of_time": (question(1),)}, "q1 was not answered in time", "aop resume", id="out of time"),
        pytest.param({"pause": "feature"}, "Paused", "aop resume one", id="paused alone"),
        pytest.param({"pause": "all"}, "Paused", "aop resume", id="all paused"),
        pytest.param(
            {"status": Status.READY_TO_MERGE, "pause": "all"}, "Ready for review", "aop review one", id="ready"
        ),
        pytest.param(
            {"status": Status.READY_TO_MERGE, "conflicts": ("src/a.txt", "b")},
            "Conflicts with the base branch: src/a.txt, b",
            "aop rebase one --resolve",
            id="ready, in conflict",
        ),
        pytest.param(
            {"status": Status.BUILDING, "conflicts": ("b",)}, "Conflicts with the base branch: b", "", id="in conflict"
        ),
        pytest.param({"status": Status.BLOCKED, "blocked_by": ("two", "xy")}, "Waits for two, xy", "", id="others"),
        pytest.param(
            {"status": Status.BLOCKED, "blocked_by": ("two",), "reason": "Behind `two`."},
            "Behind `two`.",
            "",
            id="said",
        ),
        pytest.param({"status": Status.BLOCKED, "reason": "No use."}, "No use.", "aop retry one", id="blocked"),
        pytest.param(
            {"status": Status.FAILED, "reason": "No use.", "blocked_by": ("two",)},
            "No use.",
            "aop retry one",
            id="over",
        ),
        pytest.param({"status": Status.FAILED, "reason": "No use."}, "No use.", "aop retry one", id="failed"),
        pytest.param(
            {"status": Status.BUILDING, "reason": "The quota ends at noon."}, "The quota ends at noon.", "", id="a note"
        ),
    ],
)
def test_the_first_reason_that_a_person_can_remove_is_named(facts: Any, waits: str, command: str) -> None:
    situation = Situation(**{"feature_id": "one", "status": Status.PLANNING, **facts})
    assert standing_of(situation) == Standing(waits=waits, command=command)


def test_a_reason_that_names_other_features_says_what_is_waited_for() -> None:
    reason = "The plan of `one` collides with the accepted plan of `two`. Both create `src/same.txt`."
    assert features_in_reason(reason, {"two", "three", "collides"}) == ("two",)
