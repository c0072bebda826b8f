"""The shapes that the record keeps: each document is stored whole, and its version counts up."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.digests import sha256_hex
from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, OperationId, TreeId
from aop.core.text.json import canonical_json
from aop.kernel.spec_sources import SpecSource

NonEmpty = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1)]


class Document(Struct, frozen=True, kw_only=True):
    """Something that the record keeps under (kind, key)."""

    kind: ClassVar[str]
    version: Positive


# --- features ------------------------------------------------------------------------------------


class Status(StrEnum):
    """Where a feature is in its life (AOP-086)."""

    PLANNING = "planning"
    BUILDING = "building"
    QA = "qa"
    BLOCKED = "blocked"
    READY_TO_MERGE = "ready_to_merge"
    MERGED = "merged"
    FAILED = "failed"


TERMINAL = frozenset({Status.MERGED, Status.FAILED})


class Verdict(StrEnum):
    """What is known of a gate: passed, failed, or not known for the tree as it is now."""

    PASS = "pass"
    FAIL = "fail"
    NA = "na"


RoleStatus = Literal["ready", "running", "blocked", "done"]


class HeldLocks(Struct, frozen=True, kw_only=True):
    held: tuple[str, ...] = ()
    relied_on: Mapping[str, int] = {}
    """Under which fencing numbers the plan was accepted and patches were applied; the work is good while they hold."""


class Collisions(Struct, frozen=True, kw_only=True):
    files: tuple[Mapping[str, Any], ...] = ()
    areas: tuple[Mapping[str, Any], ...] = ()
    contracts: tuple[Mapping[str, Any], ...] = ()


class Cluster(Struct, frozen=True, kw_only=True):
    orchestrator_session_id: str = "unknown"
    planner_session_id: str = "unknown"
    builder_session_id: str = "unknown"
    qa_session_id: str = "unknown"


class RoleStatuses(Struct, frozen=True, kw_only=True):
    planner: RoleStatus = "ready"
    builder: RoleStatus = "ready"
    qa: RoleStatus = "ready"


class MergeEvidence(Struct, frozen=True, kw_only=True):
    """What a merge leaves behind (AOP-188)."""

    commit: CommitId
    merge_commit: CommitId
    strategy: str
    approval_id: ApprovalId | None
    gates: Mapping[str, Verdict]


class FeatureEvidence(Struct, frozen=True, kw_only=True):
    """Pointers to the newest proof of a feature."""

    last_gate_run: GateRunId | None = None
    latest_by_mode: Mapping[str, GateRunId] = {}
    merge: MergeEvidence | None = None


class FeatureState(Document, frozen=True, kw_only=True):
    """One feature; `state.md` is written from it."""

    kind: ClassVar[str] = "feature"

    feature_id: FeatureId
    branch: NonEmpty
    worktree_path: NonEmpty
    status: Status
    gate_profile: NonEmpty
    gates: Mapping[str, Verdict]
    locks: HeldLocks = HeldLocks()
    collisions: Collisions = Collisions()
    cluster: Cluster = Cluster()
    role_status: RoleStatuses = RoleStatuses()
    last_updated: NonEmpty
    status_reason: str = ""
    blocked_from: Status | None = None
    """Where it was when it was blocked: it goes on there or earlier, never later."""
    evidence: FeatureEvidence = FeatureEvidence()
    base_commit: CommitId
    """Where the branch was cut from the base branch."""
    tree: TreeId
    """What the feature is, byte for byte; the worktree is made from it."""
    spec: SpecSource | None = None
    """None when somebody wrote `spec.md` in its place by hand, or not at all."""
    branch_commit: CommitId | None = None
    """The commit that AOP made on its branch before a merge; null if it made none."""
    waits_for: tuple[FeatureId, ...] = ()
    """The shared prerequisites that must be merged before it begins anew; it is blocked until then."""


class Index(Document, frozen=True, kw_only=True):
    """The list of all features; `index.json` is written from it."""

    kind: ClassVar[str] = "index"
    key: ClassVar[str] = "features"

    active: tuple[FeatureId, ...] = ()
    blocked: tuple[FeatureId, ...] = ()
    merged: tuple[FeatureId, ...] = ()
    failed: tuple[FeatureId, ...] = ()
    locks: Mapping[str, FeatureId | None] = {}
    lock_leases: Mapping[str, Mapping[str, Any]] = {}
    blocked_queue: tuple[Mapping[str, Any], ...] = ()
    updated_at: str = ""


# --- locks ---------------------------------------------------------------------------------------


class Lease(Struct, frozen=True, kw_only=True):
    """A feature's hold on a resource, until it releases it or does not renew it in time."""

    feature_id: FeatureId
    holder: str
    """The actor that acquired or renewed it last."""
    fence: Positive
    """Counts the grants of the resource, and is never given twice."""
    acquired_at: str
    renewed_at: str
    expires_at: str
    """For people: what decides is boot time."""
    boot_id: str
    renewed_boot: float
    expires_boot: float


class Waiter(Struct, frozen=True, kw_only=True):
    """A call that waits for a resource; it counts while its operation runs."""

    ticket: Positive
    operation_id: OperationId
    feature_id: FeatureId
    since: str


class Lock(Document, frozen=True, kw_only=True):
    """One resource that one feature at a time may change, and who wants it next."""

    kind: ClassVar[str] = "lock"

    resource: NonEmpty
    lease: Lease | None = None
    waiters: tuple[Waiter, ...] = ()
    last_fence: int = 0
    last_ticket: int = 0


# --- plans ---------------------------------------------------------------------------------------


class PlanPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a plan: what the schema does not name is refused."""


class PlannedFiles(PlanPart, frozen=True, kw_only=True):
    create: tuple[NonEmpty, ...]
    modify: tuple[NonEmpty, ...]
    delete: tuple[NonEmpty, ...]


class ContractChanges(PlanPart, frozen=True, kw_only=True):
    openapi: Literal["none", "modify"]
    events: Literal["none", "modify"]
    db: Literal["none", "migration"]


class OverrideStep(PlanPart, frozen=True, kw_only=True):
    name: NonEmpty
    cmd: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    timeout_seconds: Positive | None = None


class OverrideMode(PlanPart, frozen=True, kw_only=True):
    steps: tuple[OverrideStep, ...]


class OverrideModes(PlanPart, frozen=True, kw_only=True):
    fast: OverrideMode | None = None
    full: OverrideMode | None = None


class VerificationOverrides(PlanPart, frozen=True, kw_only=True):
    modes: OverrideModes


class Plan(PlanPart, frozen=True, kw_only=True):
    """What a planner may submit, and what `plan.json` holds (AOP-066..080)."""

    feature_id: Annotated[str, Meta(pattern="^[a-z0-9_][a-z0-9_-]*$")]
    plan_version: Positive
    summary: Annotated[str, Meta(min_length=5)]
    allowed_areas: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    forbidden_areas: tuple[NonEmpty, ...]
    base_ref: NonEmpty
    files: PlannedFiles
    contracts: ContractChanges
    acceptance_criteria: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    gate_profile: NonEmpty
    gate_targets: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)] | None = None
    risk: tuple[str, ...] | None = None
    revision_of: Positive | None = None
    revision_reason: NonEmpty | None = None
    verification_overrides: VerificationOverrides | None = None


class AcceptedPlan(Document, frozen=True, kw_only=True):
    """The plan that a feature's patches are judged by; its version is the plan's."""

    kind: ClassVar[str] = "plan"
    plan: Plan


# --- the QA index --------------------------------------------------------------------------------


QaStatus = Literal["pending", "running", "passed", "failed", "waived"]


class QaHunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One changed stretch of a file: what is tested, and what is known of it."""

    ref: str = ""
    """The same as long as the hunk is; a patch elsewhere, which only moves it, leaves it alone."""
    start_line: int
    end_line: int
    change_type: Literal["added", "modified", "deleted"]
    status: QaStatus = "pending"
    evidence_refs: tuple[str, ...] = ()
    reason: str = ""
    """Why it was waived."""


class QaItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One changed file; its status is that of its hunks together."""

    path: NonEmpty
    hunks: tuple[QaHunk, ...]
    required_tests: tuple[str, ...]
    status: QaStatus
    last_run_at: str | None = None
    evidence_refs: tuple[str, ...] = ()


class QaIndex(Document, frozen=True, kw_only=True):
    """What QA must look at; `qa_test_index.json` is written from it (AOP-143)."""

    kind: ClassVar[str] = "qa_index"

    feature_id: FeatureId
    source_diff_ref: str
    items: tuple[QaItem, ...]


# --- gate runs and approvals ---------------------------------------------------------------------


class StepResult(Struct, frozen=True, kw_only=True):
    """How one gate step ended."""

    name: str
    command: tuple[str, ...]
    outcome: Literal["passed", "failed", "timed_out", "not_started", "out_of_memory"]
    exit_code: int | None
    seconds: float
    attempts: int
    log_path: str
    log_sha256: str = ""
    """The digest of the log, so that a log that was changed proves nothing."""
    problem: str = ""


class Subject(Struct, frozen=True, kw_only=True):
    """What a verdict is about; another byte anywhere, and the verdict is about something else."""

    tree: TreeId
    base_commit: CommitId
    definition: str
    """The hash of the steps, parsers and thresholds that were run."""


class GateRun(Document, frozen=True, kw_only=True):
    """One run of one mode of a gate profile on one tree."""

    kind: ClassVar[str] = "gate_run"

    run_id: GateRunId
    feature_id: FeatureId
    profile: str
    mode: str
    subject: Subject
    config_hash: str
    verdict: Verdict
    failure_code: str = ""
    failure: str = ""
    steps: tuple[StepResult, ...]
    coverage: Mapping[str, Any] = {}
    tests: Mapping[str, Any] = {}
    findings: tuple[str, ...] = ()
    """What a person should know although the run passed."""
    sandbox_level: str
    machine: str = ""
    """The sandbox level and a hash of the programs that the steps started: elsewhere, the same gates run again."""
    started_at: str
    finished_at: str


def digest_of(document: Document) -> str:
    """Return the digest of a document that never changes."""
    return sha256_hex(canonical_json(msgspec.to_builtins(document)))


class TestBaseline(Document, frozen=True, kw_only=True):
    """How many tests run on a commit of the base branch: what a feature must not fall below."""

    kind: ClassVar[str] = "test_baseline"

    commit: CommitId
    definition: str
    """Of the gates that counted them: other steps count other tests."""
    ran: int | None
    """None when the gates of the base itself left no report: then there is nothing to compare with."""


class Approval(Document, frozen=True, kw_only=True):
    """A person's yes to one tree on one base, with the evidence and the policy that they saw."""

    kind: ClassVar[str] = "approval"

    approval_id: ApprovalId
    feature_id: FeatureId
    tree: TreeId
    base: CommitId
    gate_runs: Mapping[str, GateRunId]
    config_hash: str
    approved_by: str
    approved_at: str
    spent_by: OperationId | None = None
    withdrawn: str = ""
    """Why it opens nothing any more although nothing that it names has changed."""
