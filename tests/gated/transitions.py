"""Transition table: every way between phases. The documentation draws it; tests walk each row."""

from __future__ import annotations

from msgspec import Struct

from aop.gated.machine.state import Phase


class Transition(Struct, frozen=True, kw_only=True):
    """One way from a phase to another, or back to itself."""

    requirement: str
    phase: Phase
    call: str
    when: str
    leads_to: Phase


def _row(requirement: int, phase: Phase, call: str, when: str, leads_to: Phase) -> Transition:
    return Transition(requirement=f"GATED-{requirement}", phase=phase, call=call, when=when, leads_to=leads_to)


_ASK, _SUBMIT, _REDUCE = "get_task", "submit_work", "request_scope_reduction"

TRANSITIONS = (
    _row(39, Phase.INITIALIZING, _ASK, "no plan yet", Phase.INITIALIZING),
    _row(40, Phase.INITIALIZING, _SUBMIT, "the plan is valid", Phase.CREATING_BRANCH),
    _row(41, Phase.CREATING_BRANCH, _ASK, "the branch is made", Phase.EXECUTING_TDD),
    _row(42, Phase.EXECUTING_TDD, _ASK, "a step is to do", Phase.EXECUTING_TDD),
    _row(43, Phase.EXECUTING_TDD, _ASK, "all is done", Phase.CODE_REVIEW),
    _row(44, Phase.EXECUTING_TDD, _SUBMIT, "tests and preflight pass", Phase.EXECUTING_TDD),
    _row(45, Phase.EXECUTING_TDD, _SUBMIT, "tests or preflight fail", Phase.DEBUGGING),
    _row(46, Phase.DEBUGGING, _ASK, "always", Phase.DEBUGGING),
    _row(47, Phase.DEBUGGING, _SUBMIT, "tests and preflight pass", Phase.EXECUTING_TDD),
    _row(48, Phase.DEBUGGING, _SUBMIT, "tests or preflight fail", Phase.DEBUGGING),
    _row(49, Phase.DEBUGGING, _REDUCE, "unlocked", Phase.REPLANNING),
    _row(50, Phase.REPLANNING, _ASK, "always", Phase.REPLANNING),
    _row(51, Phase.REPLANNING, _SUBMIT, "the finer plan is valid", Phase.EXECUTING_TDD),
    _row(52, Phase.CODE_REVIEW, _ASK, "no findings", Phase.AWAITING_FINALIZATION),
    _row(53, Phase.CODE_REVIEW, _ASK, "findings", Phase.EXECUTING_TDD),
    _row(54, Phase.AWAITING_FINALIZATION, _ASK, "always", Phase.AWAITING_FINALIZATION),
    _row(55, Phase.AWAITING_FINALIZATION, _SUBMIT, "one commit", Phase.FINALIZE_COMPLETE),
    _row(56, Phase.AWAITING_FINALIZATION, _SUBMIT, "not one commit", Phase.AWAITING_FINALIZATION),
    _row(57, Phase.FINALIZE_COMPLETE, _ASK, "always", Phase.FINALIZE_COMPLETE),
    _row(58, Phase.FINALIZE_COMPLETE, _SUBMIT, "the master plan is marked", Phase.PLAN_UPDATED),
    _row(90, Phase.FINALIZE_COMPLETE, _SUBMIT, "the gates fail", Phase.DEBUGGING),
    _row(59, Phase.PLAN_UPDATED, _ASK, "not approved yet", Phase.MERGING_BRANCH),
    _row(60, Phase.MERGING_BRANCH, _ASK, "merged", Phase.INITIALIZING),
    _row(61, Phase.MERGING_BRANCH, _ASK, "conflict", Phase.HALTED),
    _row(62, Phase.HALTED, _ASK, "always", Phase.HALTED),
)


def diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for row in TRANSITIONS:
        arrows.setdefault((row.phase, row.leads_to), []).append(f"{row.call}, {row.when}")
    lines = [f"    {begin} --> {end}: {'; '.join(labels)}" for (begin, end), labels in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Phase.INITIALIZING}", *lines])
