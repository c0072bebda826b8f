"""Markers: what a reply says, and what it only talks about."""

from __future__ import annotations

from time import process_time

import pytest

from aop.forge.builds.documents import Evidence, PlanTask, SignedOff
from aop.forge.builds.machine.events import Event, Flaw, Planned, Stopped, TaskDone
from aop.forge.builds.machine.markers import STOP_CODES, events_in, hidden_markers

SIGN_OFF = """=== PHASE SIGN-OFF: PASS ===
Phase: 1
Deliverables:
- 1: src/store.py, tests/test_store.py
- 2. `README.md` (no test: it is prose)
3) src/app.py; test: tests/test_app.py
Tests: PASS
=== END PHASE SIGN-OFF ==="""


@pytest.mark.req("FORGE-049")
def test_a_plan_is_its_numbered_tasks() -> None:
    block = "# Phase 0\n1. Write the store\n   1. its file\n- [ ] 2) Test it\nTask 3: README"
    text = f"Let me plan.\n=== PLAN ===\n{block}\n=== END PLAN ===\nGo."
    tasks = ((1, "Write the store"), (2, "Test it"), (3, "README"))
    assert events_in(text) == (Planned(tasks=tuple(PlanTask(number=number, text=said) for number, said in tasks)),)


@pytest.mark.req("FORGE-051", "FORGE-053", "FORGE-055")
def test_a_reply_says_several_things_in_its_order() -> None:
    text = f"Done.\n=== TASK DONE: 2 ===\r\nAnd so:\n{SIGN_OFF}\n"
    assert events_in(text) == (
        TaskDone(number=2),
        SignedOff(
            phase=1,
            tests="PASS",
            evidence=(
                Evidence(deliverable=1, paths=("src/store.py", "tests/test_store.py")),
                Evidence(deliverable=2, paths=("README.md",), no_test_because="it is prose"),
                Evidence(deliverable=3, paths=("src/app.py", "tests/test_app.py")),
            ),
        ),
    )


@pytest.mark.req("FORGE-060")
@pytest.mark.parametrize("code", STOP_CODES)
def test_a_stop_has_a_code_and_the_reason_below_it(code: str) -> None:
    assert events_in(f"=== STOP: {code} ===\nThe stack says two\nthings.") == (
        Stopped(code=code, reason="The stack says two things."),  # type: ignore[arg-type]  # one of the codes
    )


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{SIGN_OFF}\n```",
        f"~~~~ text\n{SIGN_OFF}\n~~~\n~~~~",
        "\n".join(f"> {line}" for line in SIGN_OFF.splitlines()),
        "\n".join(f"    {line}" for line in SIGN_OFF.splitlines()),
        "\n".join(f" {line}" for line in SIGN_OFF.splitlines()),
        f'<data-f00d source="tool read_file">\n{SIGN_OFF}\n</data-f00d>',
        "\n".join(f"{line!r}" for line in SIGN_OFF.splitlines()),
        SIGN_OFF.replace("=== PHASE", "I write === PHASE"),
    ],
    ids=["code block", "tildes", "quote", "indented", "one space", "data", "quotation marks", "in a sentence"],
)
def test_a_sign_off_that_is_only_talked_about_is_none(text: str) -> None:
    assert not any(isinstance(event, SignedOff) for event in events_in(text))


def test_markers_that_do_not_count_are_counted_so_that_the_model_can_be_told() -> None:
    assert [hidden_markers(text) for text in (f"```\n{SIGN_OFF}\n```", "> === TASK DONE: 1 ===", SIGN_OFF, "x")] == [
        2, 1, 0, 0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("=== PLAN ===\n1. Write it", "`=== PLAN ===` has no `=== END PLAN ===`."),
        ("=== PLAN ===\nWrite it\n=== END PLAN ===", "The plan has no numbered task"),
        ("=== PLAN ===\n1. a\n1. b\n=== END PLAN ===", "The plan has two tasks 1."),
        ("=== END PLAN ===", "`=== END PLAN ===` has no beginning."),
        ("=== TASK DONE: all ===", "`=== TASK DONE: all ===` names no task"),
        (
            "=== PHASE SIGN-OFF: PASS ===\nTests: PASS\n=== END PHASE SIGN-OFF ===",
            "The sign-off has no line `Phase: N`.",
        ),
        ("=== PHASE SIGN-OFF: PASS ===\nPhase: 1", "has no `=== END PHASE SIGN-OFF ===`."),
        ("=== PHASE SIGN-OFF: FAIL ===\nPhase: 1\n=== END PHASE SIGN-OFF ===", "`PHASE SIGN-OFF: FAIL` is none"),
        ("=== STOP: TIRED ===", "has no code"),
    ],
)
def test_a_marker_that_cannot_be_read_is_named(text: str, problem: str) -> None:
    (flaw,) = events_in(text)
    assert isinstance(flaw, Flaw)
    assert problem in flaw.problem


def test_a_plan_without_an_end_does_not_swallow_what_follows() -> None:
    kinds: list[type[Event]] = [type(event) for event in events_in(f"=== PLAN ===\n1. x\n{SIGN_OFF}")]
    assert kinds == [Flaw, SignedOff]


@pytest.mark.unmeasured
@pytest.mark.hostile("I03")
@pytest.mark.parametrize(
    "line", [" " * 60_000 + "x", "=== TASK DONE: " * 5_000, "- 1: " + " ;" * 30_000, "=" * 60_000, "<data-" * 9_000]
)
def test_a_reply_that_was_written_to_stop_a_reader_is_read_at_once(line: str) -> None:
    began = process_time()
    events_in(SIGN_OFF.replace("Deliverables:", f"Deliverables:\n{line}"))
    hidden_markers(line)
    assert process_time() - began < 1.0
