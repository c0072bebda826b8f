"""Events of a build: what a model said, and what AOP found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from aop.core.ids import CommitId, TreeId
from aop.forge.builds.documents import CountedBy, PlanTask, StopCode


class Evidence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files, or the reason, that a sign-off names for one deliverable."""

    deliverable: int
    """Its place in the list of the phase, from 1."""
    paths: tuple[str, ...] = ()
    """The files that show it, its tests among them."""
    no_test_because: str = ""
    """Why it has no test; empty if it has one."""


class Planned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="plan"):
    """A plan for the current phase."""

    tasks: tuple[PlanTask, ...]
    """Its numbered tasks."""


class TaskDone(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="task_done"):
    """A task of the plan is said to be done."""

    number: int
    """The number of the task in the plan."""


class SignedOff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sign_off"):
    """A phase is said to be done."""

    phase: int
    """The phase that the sign-off names."""
    tests: str = ""
    """The result of the tests as it claims; only `PASS` counts."""
    evidence: tuple[Evidence, ...] = ()
    """Its evidence for each deliverable."""


class Stopped(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stop"):
    """The model cannot go on."""

    code: StopCode
    """Why it cannot."""
    reason: str = ""
    """The same in words."""


class Compacted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="compacted"):
    """The conversation was shortened."""


class Flaw(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="flaw"):
    """A marker that cannot be read."""

    problem: str


Event: TypeAlias = Planned | TaskDone | SignedOff | Stopped | Compacted | Flaw


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
