"""Events of a build: what a model said, and what AOP found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from aop.core.ids import CommitId, TreeId
from aop.forge.builds.documents import AuditReport, CountedBy, PlanTask, SignedOff, StopCode

LONGEST_REPORT = 16_000
Line = Annotated[str, Meta(max_length=2_000)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=200)]


class Planned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="plan"):
    """A plan for the current phase."""

    tasks: tuple[PlanTask, ...]
    """Its numbered tasks."""


class TaskDone(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="task_done"):
    """A task of the plan is said to be done."""

    number: int
    """The number of the task in the plan."""


class Stopped(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stop"):
    """The model cannot go on."""

    code: StopCode
    """Why it cannot."""
    reason: str = ""
    """The same in words."""


class Compacted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="compacted"):
    """The conversation was shortened."""


class ScoutReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The report of a team's scout, for its coder."""

    directory_tree: Annotated[str, Meta(max_length=LONGEST_REPORT)] = ""
    """The folders and files that the phase touches."""
    key_interfaces: Lines = ()
    """The functions, classes and routes that it uses, with their files."""
    patterns: Lines = ()
    """The patterns that the code follows."""
    imports_map: Annotated[dict[str, Lines], Meta(max_length=200)] = {}
    """For each file, the modules that it imports."""
    directives: Lines = ()
    """The rules of the contracts that bind this phase, each with contract and section."""
    recommendations: Lines = ()
    """Advice for the coder."""


class Scouted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scouted"):
    """The scout of a team has looked at the phase."""

    report: ScoutReport | None = None
    """Its report; null if it handed in none."""


class Audited(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="audited"):
    """The auditor of a team has looked at the phase."""

    report: AuditReport | None = None
    """Its report; null if it handed in none."""


class Fixed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fixed"):
    """The fixer of a team has worked on the findings."""

    fix_summary: Annotated[str, Meta(max_length=LONGEST_REPORT)] = ""
    """Its words on each finding: repaired, or why not; empty if it said nothing."""


class ClaimReturned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="claim_returned"):
    """A sign-off that a host handed in cannot be judged."""

    reason: Annotated[str, Meta(min_length=1, max_length=4_000)]
    """The reason, for the host."""


class Flaw(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="flaw"):
    """A marker that cannot be read."""

    problem: str


CrewEvent: TypeAlias = Scouted | Audited | Fixed | ClaimReturned
RecordedEvent: TypeAlias = Planned | TaskDone | SignedOff | Stopped | Compacted | CrewEvent
"""An event that the record keeps; a marker that cannot be read is only answered."""

Event: TypeAlias = RecordedEvent | Flaw


class TreeProof(Struct, frozen=True, kw_only=True):
    """The findings of AOP on the tree of a build."""

    tree: TreeId
    commit: CommitId
    gate_run_id: str = ""
    """The verification that ran on this tree; empty if none did."""
    failure: str = ""
    """Why it did not pass; empty if it did."""
    tests: int = 0
    counted_by: CountedBy = "tree"
    audit: Mapping[str, str] = {}
    """The checks that failed or could not be computed, by code, each with what it found."""
    paths: frozenset[str] = frozenset()
    """The files of the tree."""
