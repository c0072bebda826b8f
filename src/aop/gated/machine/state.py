"""State: a gated workflow, its events and its actions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from aop.core.errors import Refusal
from aop.core.structs import Part
from aop.gated.machine.active_pr import ActivePr, PlanTask


class Phase(StrEnum):
    """The phases of a workflow (GATED-09)."""

    INITIALIZING = "INITIALIZING"
    CREATING_BRANCH = "CREATING_BRANCH"
    EXECUTING_TDD = "EXECUTING_TDD"
    DEBUGGING = "DEBUGGING"
    REPLANNING = "REPLANNING"
    CODE_REVIEW = "CODE_REVIEW"
    AWAITING_FINALIZATION = "AWAITING_FINALIZATION"
    FINALIZE_COMPLETE = "FINALIZE_COMPLETE"
    PLAN_UPDATED = "PLAN_UPDATED"
    MERGING_BRANCH = "MERGING_BRANCH"
    HALTED = "HALTED"


class Expectation(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"


class Decision(StrEnum):
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


class SubmissionVerdict(StrEnum):
    """The verdict on a submission (GATED-24)."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    NEEDS_ANALYSIS = "NEEDS_ANALYSIS"


class AttemptThresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of failed attempts that change the advice and unlock tools (GATED-77)."""

    hypothesize_max: int = 2
    instrumentation_max: int = 5
    unlock_scope_reduction_at: int = 6
    unlock_escalation_at: int = 10
    review_rounds: int = 5


class PendingAnalysis(Part, frozen=True, kw_only=True):
    """A red run that waits for the agent's judgement (C-16)."""

    test_command: str
    output: str
    frozen: Mapping[str, str] = {}
    """The test files of the run, as mode and blob: once accepted, they cannot be weakened."""
    failed: tuple[str, ...] = ()
    """The tests that failed by an assertion of their own."""


class ReplanContext(Part, frozen=True, kw_only=True):
    """A task that failed, and its error (GATED-79)."""

    original_task: PlanTask
    last_error: str


class Workflow(Part, frozen=True, kw_only=True):
    """One agent on one plan: everything that a decision may depend on."""

    status: Phase = Phase.INITIALIZING
    plan: ActivePr | None = None
    """The pull request as the server accepted it; the file is written from it."""
    debug_attempt_counter: int = 0
    last_commit_hash: str | None = None
    current_pr_branch: str | None = None
    last_error: str | None = None
    pending_analysis: PendingAnalysis | None = None
    last_completed_step: str | None = None
    """A step whose checkpoint is still to be made (GATED-70)."""
    replan_context: ReplanContext | None = None
    halt_reason: str | None = None
    replan_count: int = 0
    review_rounds: int = 0
    frozen_tests: Mapping[str, str] = {}
    """Test files that went red in this pull request, as mode and blob: a change needs a grant."""
    granted_tests: tuple[str, ...] = ()
    """Test files that were changed by a grant."""
    escalated: bool = False
    """Whether a person was asked for help and has not answered (C-20)."""
    guidance: str | None = None
    """The person's answer; repeated to the agent until the next success."""
    judged: bool = False
    """Whether the attempt of this turn is over: the next one begins with `get_task` (GATED-03)."""


class TaskAsked(Struct, frozen=True, kw_only=True):
    """`get_task` was called."""

    draft: ActivePr | Refusal | None = None
    """The current content of `ACTIVE_PR.json`; None if there is none."""
    is_plan_done: bool = False
    """Whether every pull request of the master plan is done."""


class Submitted(Struct, frozen=True, kw_only=True):
    """`submit_work` was called."""

    summary: str
    test_command: str | None = None
    expectation: Expectation | None = None
    analysis_decision: Decision | None = None
    commit_hash: str | None = None
    draft: ActivePr | Refusal | None = None
    """The current content of `ACTIVE_PR.json`; None if there is none."""
    title_problem: str = ""
    """Why its title is not an open pull request of the master plan."""


class ReductionAsked(Struct, frozen=True, kw_only=True):
    """`request_scope_reduction` was called."""


class EscalationAsked(Struct, frozen=True, kw_only=True):
    """`escalate_for_external_help` was called."""

    report: str


class PersonGuided(Struct, frozen=True, kw_only=True):
    """A person answered an escalation."""

    guidance: str


class Ran(Struct, frozen=True, kw_only=True):
    """A command or a gate profile ran to its end."""

    passed: bool
    output: str


class CommandRan(Struct, frozen=True, kw_only=True):
    """The submitted test command ran, on the tree that is judged."""

    test_command: str
    passed: bool
    output: str
    weakened: tuple[str, ...] = ()
    """Frozen test files that changed without a grant, each with the reason."""
    red_problem: str = ""
    """Why a failing run is not red for the right reason: no test failed by an assertion."""
    frozen: Mapping[str, str] = {}
    """The test files of this tree that are new or changed on the branch, as mode and blob."""
    failed: tuple[str, ...] = ()
    """The tests that failed by an assertion of their own."""


class PreflightRan(Ran, frozen=True, kw_only=True):
    """The preflight gates ran."""

    printed: str = ""
    """The output of the submitted command, which passed before."""


class WithoutFixRan(Ran, frozen=True, kw_only=True):
    """The gates ran on the new tests without the fix."""

    needless: str = ""
    """The red tests that pass without the fix."""
    printed: str = ""
    """The output of the submitted command, which passed before."""


class BranchMade(Struct, frozen=True, kw_only=True):
    branch: str


class Committed(Struct, frozen=True, kw_only=True):
    """A checkpoint was made."""

    commit: str


class Reverted(Struct, frozen=True, kw_only=True):
    """The worktree is as the last commit has it."""

    frozen: Mapping[str, str] = {}
    """The frozen test files that the last commit holds."""


class DraftDropped(Struct, frozen=True, kw_only=True):
    """A draft whose steps are all done was removed."""


class Reviewed(Struct, frozen=True, kw_only=True):
    """The reviewer answered; blocking findings have become tasks."""

    tasks: tuple[PlanTask, ...] = ()
    summary: str = ""


class ReviewFailed(Struct, frozen=True, kw_only=True):
    """The review failed: a crash, no answer or an unreadable one. Never an approval (GATED-92)."""

    reason: str


class Squashed(Struct, frozen=True, kw_only=True):
    """The number of commits of the branch since its base, and its tip."""

    commits: int
    tip: str
    problem: str = ""


class PlanMarked(Struct, frozen=True, kw_only=True):
    """Whether the master plan says `[DONE] <hash>` for this pull request."""

    is_marked: bool
    reason: str = ""
    failed_mode: str = ""
    """The mode whose gates did not pass on the finished pull request."""


class Merged(Struct, frozen=True, kw_only=True):
    """The pull request is on the base branch; its branch is gone."""

    is_plan_done: bool = False
    """Whether it was the last one of the master plan."""


class ApprovalAwaited(Struct, frozen=True, kw_only=True):
    """The tree is not approved yet."""

    reason: str


class MergeConflicted(Struct, frozen=True, kw_only=True):
    """The base branch and the pull request cannot be merged by a machine."""

    paths: tuple[str, ...]
    name: str = "gated"
    """The workflow."""
    folder: str = ".worktrees/gated"
    """Its worktree."""


class RefsMoved(Struct, frozen=True, kw_only=True):
    """A ref, HEAD or the index is not where the server left it (C-58)."""

    what: str


Event: TypeAlias = (
    TaskAsked
    | Submitted
    | ReductionAsked
    | EscalationAsked
    | PersonGuided
    | CommandRan
    | PreflightRan
    | WithoutFixRan
    | BranchMade
    | Committed
    | Reverted
    | DraftDropped
    | Reviewed
    | ReviewFailed
    | Squashed
    | PlanMarked
    | Merged
    | ApprovalAwaited
    | MergeConflicted
    | RefsMoved
)


class MakeBranch(Struct, frozen=True, kw_only=True):
    """Ends in `BranchMade`."""

    branch: str


class RunCommand(Struct, frozen=True, kw_only=True):
    """Ends in `CommandRan`."""

    test_command: str


class RunPreflight(Struct, frozen=True, kw_only=True):
    """Ends in `PreflightRan`; it cannot be skipped."""

    printed: str = ""


class RunWithoutFix(Struct, frozen=True, kw_only=True):
    """Ends in `WithoutFixRan`."""

    printed: str = ""


class Commit(Struct, frozen=True, kw_only=True):
    """Ends in `Committed`."""

    message: str


class DropDraft(Struct, frozen=True, kw_only=True):
    """Ends in `DraftDropped`."""


class Revert(Struct, frozen=True, kw_only=True):
    """Ends in `Reverted`."""


class Review(Struct, frozen=True, kw_only=True):
    """Ends in `Reviewed` or `ReviewFailed`."""


class Squash(Struct, frozen=True, kw_only=True):
    """Ends in `Squashed`; with a commit hash it only verifies."""

    message: str
    commit_hash: str | None


class CheckPlan(Struct, frozen=True, kw_only=True):
    """Ends in `PlanMarked`."""

    path: str
    pr_title: str
    commit_hash: str


class Merge(Struct, frozen=True, kw_only=True):
    """Ends in `Merged`, `ApprovalAwaited` or `MergeConflicted`."""

    branch: str


class Brief(Struct, frozen=True, kw_only=True):
    """The answer of `get_task`, or of another tool that only informs."""

    text: str
    next_call: str


class Judge(Struct, frozen=True, kw_only=True):
    """The answer of `submit_work`."""

    verdict: SubmissionVerdict
    output: str
    next_call: str


Action: TypeAlias = (
    MakeBranch
    | RunCommand
    | RunPreflight
    | RunWithoutFix
    | Commit
    | Revert
    | DropDraft
    | Review
    | Squash
    | CheckPlan
    | Merge
    | Brief
    | Judge
    | Refusal
)
"""A refusal is raised, and changes nothing."""

Next: TypeAlias = tuple[Workflow, Action]
"""The workflow after an event, and the action that follows."""
