"""A check of the doctor that hangs is named, and the others are shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from aop.adapters.reporting.doctor.checks import Check, fine
from aop.adapters.reporting.doctor.timed_examination import Begins, TimedExamination
from tests.racing import until


def test_a_check_that_does_not_answer_is_named_and_not_begun_again_while_it_hangs() -> None:
    answered, begun = threading.Event(), list[str]()

    def checks(begins: Begins) -> Iterator[Check]:
        yield fine("git", "is there")
        begins("agents")
        begun.append("agents")
        answered.wait(300)
        yield fine("agents", "answered")

    doctor = TimedExamination(checks, 0.2)
    # On a busy machine, 0.2 seconds may be over before the first check has begun.
    until(lambda: bool(doctor() and begun))
    for _look in range(2):
        found = doctor()
        assert [(each.name, each.health) for each in found] == [("git", "ok"), ("agents", "failure")]
        assert "has not answered within 0.2 seconds" in found[-1].found
    assert begun == ["agents"]
    answered.set()
    patient = TimedExamination(checks, 300)
    assert [each.found for each in patient()] == ["is there", "answered"]
