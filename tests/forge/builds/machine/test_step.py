"""Step of a build: plans, tasks, sign-offs and stops."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from aop.core.ids import CommitId, ObjectId, TreeId
from aop.forge.builds.documents import (
    BuildCycle,
    Evidence,
    PhaseProgress,
    PlanTask,
    RefusedSignOff,
    SignedOff,
    SignOff,
    Stop,
    branch_of,
)
from aop.forge.builds.machine.decisions import Decision, Surroundings, is_complete
from aop.forge.builds.machine.events import Event, Flaw, Planned, Stopped, TaskDone, TreeProof
from aop.forge.builds.machine.step import resumed_after_stop, step

TREE, COMMIT = TreeId(ObjectId("a" * 40)), CommitId(ObjectId("b" * 40))
BASELINE = CommitId(ObjectId("c" * 40))
NOW = "2026-11-17T10:00:00Z"
CYCLE = BuildCycle(
    version=3,
    build_id="shop-b1",
    project_id="shop",
    branch=branch_of("shop-b1"),
    baseline_sha=BASELINE,
    head=BASELINE,
    phases=("Genesis", "Finish"),
    created_at=NOW,
    updated_at=NOW,
)
TASKS = (PlanTask(number=1, text="Write the store"), PlanTask(number=2, text="Write its test"))
BUILT = replace(CYCLE, current=PhaseProgress(plan=TASKS, done=(1, 2)))
DELIVERABLES = ("A store with a test", "A start script")
SAID = SignedOff(
    phase=0,
    tests="PASS",
    evidence=(
        Evidence(deliverable=1, paths=("store.py", "test_store.py")),
        Evidence(deliverable=2, paths=("start.sh",), no_test_because="it starts the server"),
    ),
)
PROOF = TreeProof(
    tree=TREE,
    commit=COMMIT,
    gate_run_id="gate-1",
    tests=4,
    counted_by="report",
    paths=frozenset({"store.py", "test_store.py", "start.sh"}),
)


def stepped(cycle: BuildCycle, event: Event, proof: TreeProof = PROOF) -> Decision:
    return step(cycle, event, Surroundings(now=NOW, attempts=3, deliverables=DELIVERABLES, proof=proof))


def test_a_plan_begins_the_phase_and_a_new_one_keeps_what_is_done() -> None:
    planned = stepped(CYCLE, Planned(tasks=TASKS))
    assert (planned.planned, planned.cycle.current.plan, planned.cycle.version) == (True, TASKS, 4)
    longer = (*TASKS[:1], PlanTask(number=2, text="Write two tests"), PlanTask(number=3, text="Tidy"))
    again = stepped(BUILT, Planned(tasks=longer))
    assert (again.cycle.current.plan, again.cycle.current.done) == (longer, (1,))


@pytest.mark.req("FORGE-051")
def test_a_finished_task_is_a_commit_with_its_words() -> None:
    planned = stepped(CYCLE, Planned(tasks=TASKS)).cycle
    done = stepped(planned, TaskDone(number=1))
    assert (done.commit, done.cycle.current.done) == ("Phase 0, task 1: Write the store", (1,))
    assert done.answer == "Task 1 is recorded. Not done yet: 2."


@pytest.mark.parametrize(
    ("cycle", "number", "told"),
    [
        (CYCLE, 1, "There is no plan yet, so task 1 is not recorded. Write the plan first."),
        (BUILT, 7, "The plan has no task 7; it has 1, 2. Nothing was recorded."),
        (BUILT, 1, "Task 1 is done already."),
    ],
)
def test_a_task_that_is_not_in_the_plan_or_is_done_changes_nothing(cycle: BuildCycle, number: int, told: str) -> None:
    assert stepped(cycle, TaskDone(number=number)) == Decision(cycle=cycle, answer=told)


@pytest.mark.req("FORGE-053", "FORGE-054", "FORGE-055")
def test_a_sign_off_that_is_proven_begins_the_next_phase() -> None:
    signed = stepped(BUILT, SAID)
    accepted = SignOff(
        phase=0,
        name="Genesis",
        tree=TREE,
        commit=COMMIT,
        gate_run_id="gate-1",
        tests=4,
        counted_by="report",
        deliverables={
            DELIVERABLES[0]: ("store.py", "test_store.py"), DELIVERABLES[1]: ("start.sh", "it starts the server"),
        },
        at=NOW,
    )  # fmt: skip
    assert (signed.signed_off, signed.cycle.sign_offs, signed.complete) == (accepted, (accepted,), False)
    assert signed.cycle.current == PhaseProgress(number=1, start_tree=TREE, start_commit=COMMIT)


def refused_for(cycle: BuildCycle = BUILT, said: SignedOff = SAID, **proof: Any) -> list[str]:
    decision = stepped(cycle, said, replace(PROOF, **proof))
    assert decision.signed_off is None
    refused = RefusedSignOff(
        phase=cycle.current.number, tree=TREE, reasons=tuple(each.text for each in decision.missing), at=NOW
    )
    assert decision.cycle.refused[-1] == refused
    return [each.key for each in decision.missing]


LAST = replace(BUILT, current=replace(BUILT.current, number=1))


@pytest.mark.req("FORGE-055", "FORGE-059")
def test_every_sign_off_that_cheats_is_refused_for_its_reason() -> None:
    assert refused_for(CYCLE) == ["plan"]
    assert refused_for(replace(CYCLE, current=PhaseProgress(plan=TASKS, done=(2,)))) == ["tasks"]
    assert refused_for(said=replace(SAID, phase=1)) == ["phase"]
    assert refused_for(said=replace(SAID, tests="FAIL")) == ["tests_line"]
    assert refused_for(said=replace(SAID, evidence=SAID.evidence[:1])) == ["deliverable_2"]
    assert refused_for(paths=frozenset({"store.py", "start.sh"})) == ["deliverable_1"]
    assert refused_for(gate_run_id="") == ["verification"]
    assert refused_for(failure="The step `tests` failed.") == ["verification"]
    assert refused_for(audit={"A8": "3 tests ran; 4 at the sign-off of phase 0", "A1": "x.py"}) == [
        "audit_A1", "audit_A8",
    ]  # fmt: skip


@pytest.mark.req("FORGE-061")
def test_the_last_phase_needs_a_readme_and_then_completes_the_build() -> None:
    said = replace(SAID, phase=1)
    assert refused_for(LAST, said) == ["readme"]
    done = stepped(replace(LAST, sign_offs=stepped(BUILT, SAID).cycle.sign_offs), said,
                   replace(PROOF, paths=PROOF.paths | {"README.md"}))  # fmt: skip
    assert (done.complete, is_complete(done.cycle), done.cycle.current.number) == (True, True, 1)


@pytest.mark.req("FORGE-052")
def test_the_third_refusal_for_one_reason_stops_the_build_and_other_reasons_count_for_themselves() -> None:
    red, cycle = replace(PROOF, failure="The step `tests` failed."), BUILT
    first = stepped(cycle, SAID, red)
    assert first.answer == (
        "Phase 0 is not signed off. Missing:\n- The verification did not pass: The step `tests` failed.\n\nRepair this"
        " and sign off again. After 2 more refusals for the same reason the build stops."
    )
    other = stepped(first.cycle, replace(SAID, tests=""), PROOF)
    second = stepped(other.cycle, SAID, red)
    third = stepped(second.cycle, SAID, red)
    assert [each.cycle.hold for each in (first, other, second, third)] == ["", "", "", "stopped"]
    assert third.stop == Stop(
        code="EVIDENCE_MISSING",
        reason="Phase 0 was not signed off 3 times: The verification did not pass: The step `tests` failed.",
    )
    assert (len(third.cycle.refused), third.cycle.version) == (4, BUILT.version + 4)


@pytest.mark.req("FORGE-060")
def test_a_stop_holds_the_build_until_a_person_answers() -> None:
    stopped = stepped(BUILT, Stopped(code="CONTRACT_CONFLICT", reason="Two stacks."))
    assert (stopped.cycle.hold, stopped.cycle.hold_reason, stopped.stop) == (
        "stopped", "CONTRACT_CONFLICT: Two stacks.", Stop(code="CONTRACT_CONFLICT", reason="Two stacks."),
    )  # fmt: skip
    on = resumed_after_stop(stopped.cycle, "Take SQLite.", NOW)
    assert (on.hold, on.hold_reason, on.stop, on.current.attempts) == ("", "", None, {})
    assert on.interjections == ("A person answered your STOP (CONTRACT_CONFLICT): Take SQLite.\nGo on with this.",)


def test_a_marker_that_cannot_be_read_changes_nothing() -> None:
    assert stepped(BUILT, Flaw(problem="The plan has no numbered task.")).cycle is BUILT
