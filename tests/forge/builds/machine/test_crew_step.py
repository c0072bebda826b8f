"""Crew step: what follows from the work of each role of a team, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from aop.core.ids import CommitId, ObjectId, TreeId
from aop.core.roles import Role
from aop.forge.builds.documents import (
    AuditReport,
    BuildCycle,
    ContractFinding,
    CrewProgress,
    PhaseProgress,
    PlanTask,
    SignedOff,
    Stage,
)
from aop.forge.builds.machine.crew_step import role_at_work
from aop.forge.builds.machine.decisions import Surroundings
from aop.forge.builds.machine.events import Audited, ClaimReturned, Event, Fixed, Scouted, ScoutReport, TreeProof
from aop.forge.builds.machine.step import resumed_after_stop, step
from aop.forge.contracts.types import ContractType
from aop.reviews.report import ReviewVerdict, Severity

NOW = "2026-01-02T03:04:05Z"
SAID = SignedOff(phase=0, tests="PASS")
PROOF = TreeProof(tree=TreeId(ObjectId("1" * 40)), commit=CommitId(ObjectId("2" * 40)), gate_run_id="run-1", tests=3)
AROUND = Surroundings(now=NOW, attempts=2, proof=PROOF, shown={"app.py": {1, 2}, "store.py": {1}})


def cycle_at(stage: Stage, **crew: Any) -> BuildCycle:
    """Return a team's build whose first phase is at a stage, its plan done."""
    return BuildCycle(
        version=1,
        build_id="shop-b1",
        project_id="shop",
        crew="team",
        branch="forge/build-shop-b1",
        baseline_sha=CommitId(ObjectId("0" * 40)),
        head=CommitId(ObjectId("2" * 40)),
        phases=("Genesis", "Release"),
        current=PhaseProgress(
            plan=(PlanTask(number=1, text="Write it"),), done=(1,), crew=CrewProgress(stage=stage, **crew)
        ),
        created_at=NOW,
        updated_at=NOW,
    )


def found(path: str = "app.py", line: int | None = 1, severity: Severity = Severity.MAJOR) -> ContractFinding:
    return ContractFinding(
        file_path=path,
        line_number=line,
        severity=severity,
        description="It prints.",
        recommendation="Return it.",
        contract=ContractType.BOUNDARIES,
        section="/layers/0",
    )


def audit(*findings: ContractFinding, verdict: ReviewVerdict = ReviewVerdict.REQUEST_CHANGES) -> Audited:
    return Audited(report=AuditReport(verdict=verdict, summary="Read.", findings=findings))


AUDIT = cycle_at("audit", said=SAID)
FIX = cycle_at("fix", said=SAID, findings=(found(),))
APPROVED = audit(verdict=ReviewVerdict.APPROVE)


@pytest.mark.parametrize(
    ("before", "event", "stage", "commit"),
    [
        (cycle_at("scout"), Scouted(report=ScoutReport(patterns=("one store",))), "code", ""),
        (cycle_at("scout"), Scouted(), "code", ""),
        (cycle_at("code"), SAID, "audit", "Phase 0: Genesis"),
        (AUDIT, audit(found()), "fix", ""),
        (AUDIT, audit(found(severity=Severity.MINOR)), "fix", ""),
        (AUDIT, audit(found(line=99)), "fix", ""),
        (AUDIT, Audited(), "audit", ""),
        (AUDIT, audit(found("elsewhere.py")), "audit", ""),
        (FIX, Fixed(fix_summary="1: repaired."), "audit", "Phase 0, fix 1"),
        (cycle_at("code", claimed=SAID), ClaimReturned(reason="Busy."), "code", ""),
    ],
)
def test_each_role_hands_the_phase_to_the_next(before: BuildCycle, event: Event, stage: str, commit: str) -> None:
    after = step(before, event, AROUND)
    assert (after.cycle.current.crew.stage, after.commit, after.stop) == (stage, commit, None)
    assert (after.cycle.current.crew.claimed, after.cycle.version) == (None, 2)
    assert (after.signed_off, after.missing) == (None, ())


@pytest.mark.req("FORGE-230")
@pytest.mark.parametrize("event", [APPROVED, audit(found(severity=Severity.SUGGESTION), verdict=ReviewVerdict.COMMENT)])
def test_an_audit_without_a_violation_signs_the_phase_off(event: Audited) -> None:
    after = step(AUDIT, event, AROUND)
    assert after.signed_off is not None
    assert (after.signed_off.tree, after.signed_off.gate_run_id) == (PROOF.tree, "run-1")
    assert (after.cycle.current.number, after.cycle.current.crew) == (1, CrewProgress())
    assert role_at_work(after.cycle) is Role.SCOUT


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (cycle_at("code"), APPROVED),
        (AUDIT, Fixed(fix_summary="Done.")),
        (AUDIT, Scouted()),
        (cycle_at("scout"), Fixed()),
        (replace(AUDIT, crew="solo"), APPROVED),
        (cycle_at("audit"), APPROVED),
    ],
)
def test_what_a_role_says_in_another_ones_turn_changes_nothing(before: BuildCycle, event: Event) -> None:
    after = step(before, event, AROUND)
    assert (after.cycle, after.answer, after.signed_off) == (before, "", None)


@pytest.mark.parametrize(("before", "event"), [(AUDIT, APPROVED), (FIX, Fixed(fix_summary="1: repaired."))])
def test_a_tree_that_is_no_longer_proven_goes_back_to_the_coder(before: BuildCycle, event: Event) -> None:
    broken = replace(AROUND, proof=replace(PROOF, failure="1 test failed"))
    after = step(before, event, broken)
    assert after.signed_off is None
    assert (after.cycle.current.crew.stage, after.cycle.current.crew.told) == (
        "code", "- The verification did not pass: 1 test failed",
    )  # fmt: skip
    assert len(after.cycle.refused) == 1


@pytest.mark.parametrize(
    ("before", "events", "reason"),
    [
        (
            cycle_at("audit", said=SAID, fixes=2),
            [audit(found())],
            "Phase 0 still violates `boundaries` (/layers/0) in `app.py` after 2 repairs: It prints.",
        ),
        (AUDIT, [Audited(), Audited()], "The auditor handed in no report."),
    ],
)
def test_what_stays_wrong_asks_a_person_and_then_goes_on(
    before: BuildCycle, events: Sequence[Event], reason: str
) -> None:
    cycle = before
    for event in events:
        cycle = step(cycle, event, AROUND).cycle
    assert (cycle.hold, cycle.stop and cycle.stop.reason, cycle.version) == ("stopped", reason, 1 + len(events))
    on = resumed_after_stop(cycle, "Go on.", NOW)
    assert (on.current.crew.fixes, on.current.attempts, on.hold) == (0, {}, "")


def test_findings_are_held_against_the_diff() -> None:
    held = step(AUDIT, audit(found(), found(line=99), found("elsewhere.py")), AROUND)
    assert held.audit is not None
    assert [each.file_path for each in held.audit.dropped] == ["elsewhere.py"]
    assert [each.line_number for each in held.audit.unanchored] == [99]
    assert [each.line_number for each in held.cycle.current.crew.findings] == [1, None]
    assert held.audited_paths == ("app.py", "store.py")


ROLES: Mapping[Stage, Role] = {"scout": Role.SCOUT, "code": Role.CODER, "audit": Role.AUDITOR, "fix": Role.FIXER}


@pytest.mark.req("FORGE-099")
def test_each_stage_belongs_to_one_role_and_a_solo_build_to_its_builder() -> None:
    assert {stage: role_at_work(cycle_at(stage)) for stage in ROLES} == ROLES
    assert role_at_work(replace(cycle_at("code"), crew="solo")) is Role.FORGE_BUILDER
