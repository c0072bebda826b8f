"""What workers say on the wire, and recordings of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.workers.replay import RecordedTurn, ReplayWorker, read_transcript
from aop.core.errors import Fault
from aop.core.roles import Role
from aop.kernel.gates.causes import telling_line
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerInput, WorkerOutput, WorkerRequest
from tests.supervisor.worlds import ONE

WIRE: Mapping[str, tuple[dict[str, Any], WorkerOutput]] = {
    "PLAN_SUBMISSION": ({"type": "PLAN_SUBMISSION", "plan": {"a": 1}}, PlanSubmission(plan={"a": 1})),
    "PATCH": ({"type": "PATCH", "unified_diff": "--- a"}, PatchProposal(unified_diff="--- a")),
    "NOTE": ({"type": "NOTE", "note": "Hello."}, Note(note="Hello.")),
    "REQUEST": (
        {"type": "REQUEST", "request": "lock", "detail": {"resource": "openapi"}},
        WorkerRequest(request="lock", detail={"resource": "openapi"}),
    ),
    "usage": (
        {
            "type": "NOTE",
            "note": "Hello.",
            "usage": {
                "input_tokens": 7,
                "output_tokens": None,
                "cached_input_tokens": None,
                "cost_usd": None,
                "self_reported": False,
                "estimated": False,
            },
        },
        Note(note="Hello.", usage=Usage(input_tokens=7)),
    ),
}


@pytest.mark.req("AOP-234")
@pytest.mark.parametrize(("wire", "output"), WIRE.values(), ids=WIRE)
def test_an_answer_on_the_wire_says_what_it_is(wire: dict[str, Any], output: WorkerOutput) -> None:
    assert msgspec.convert(wire, WorkerOutput) == output
    assert msgspec.to_builtins(output) == wire


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "MERGE", "feature_id": "one"},
        {"type": "PATCH", "unified_diff": "x", "force": True},
        {"type": "PATCH"},
        {"type": "REQUEST", "request": "approval"},
        {"unified_diff": "x"},
    ],
)
def test_what_is_no_answer_is_not_taken_for_one(wire: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wire, WorkerOutput)


# --- recordings ------------------------------------------------------------------------------------


def asked(role: Role) -> WorkerInput:
    return WorkerInput(
        role=role,
        feature_id=ONE,
        context_bundle={},
        instructions="",
        last_tool_results=(),
        provider="replay",
        model=None,
        provider_config_ref=None,
    )


def test_a_recording_gives_its_turns_in_their_order_and_then_says_that_it_is_over() -> None:
    worker = ReplayWorker(read_transcript(b'{"role": "builder", "output": {"type": "NOTE", "note": "Hello."}}\n'))
    assert worker.turn(asked(Role.BUILDER)) == Note(note="Hello.")
    with pytest.raises(Exception, match="ends after 1 turn, but the builder of `one` needs another one") as over:
        worker.turn(asked(Role.BUILDER))
    assert getattr(over.value, "code", None) == "replay_diverged"


def test_a_recording_does_not_speak_for_another_role() -> None:
    worker = ReplayWorker([RecordedTurn(role=Role.PLANNER, output=PlanSubmission(plan={}))])
    with pytest.raises(Exception, match="Turn 1 of the recording is for the planner, not for the builder"):
        worker.turn(asked(Role.BUILDER))


def test_a_damaged_recording_is_named_by_its_line() -> None:
    with pytest.raises(Fault, match="Line 2 of the transcript is not a turn"):
        list(
            read_transcript(b'{"role": "builder", "output": {"type": "NOTE", "note": "Hello."}}\n{"role": "builder"\n')
        )


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("Traceback\n  ValueError: no\n\nFAILED (errors=1)\n", "ValueError: no"),
        ("one\ntwo\n\n", "two"),
        ("", "(empty)"),
    ],
)
def test_the_line_of_a_log_that_says_most(log: str, line: str) -> None:
    assert telling_line(log) == line
