"""Feature documents: status, branch, tree, gates and locks of a feature."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from msgspec import Struct

from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, TreeId
from aop.kernel.record.documents.base import Document, Moment, NonEmpty
from aop.kernel.record.documents.gate_runs import TestChange, Verdict
from aop.kernel.record.documents.specs import SpecSource


class Status(StrEnum):
    """The status of a feature (AOP-086)."""

    PLANNING = "planning"
    BUILDING = "building"
    QA = "qa"
    BLOCKED = "blocked"
    READY_TO_MERGE = "ready_to_merge"
    MERGED = "merged"
    FAILED = "failed"


TERMINAL = frozenset({Status.MERGED, Status.FAILED})

BUILD_BRANCHES = "forge/build-"
"""The beginning of the branches of builds; AOP never merges, replaces or deletes one (C-01, C-03)."""


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
    """The evidence of a merge (AOP-188)."""

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


class SetAside(Struct, frozen=True, kw_only=True):
    """The whole work of a feature that conflicts with the base branch; a builder does the missing part again."""

    tree: TreeId
    """The feature's tree before; it stays reachable below `refs/aop/undone/`."""
    base_commit: CommitId
    """The commit that this tree was made on."""
    paths: tuple[str, ...] = ()
    """The files in conflict; empty if the two have no common commit, or conflict in names alone."""


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
    last_updated: Moment
    status_reason: str = ""
    blocked_from: Status | None = None
    """The status before it was blocked: it continues there or earlier, never later."""
    evidence: FeatureEvidence = FeatureEvidence()
    base_commit: CommitId
    """The commit of the base branch from which the branch was cut."""
    tree: TreeId
    """The feature's content, byte for byte; the worktree is made from it."""
    spec: SpecSource | None = None
    """None when `spec.md` was written by hand, or does not exist."""
    branch_commit: CommitId | None = None
    """The commit that AOP made on its branch before a merge; null if it made none."""
    title: str = ""
    """The title of its pull request, which the merge carries; empty if it has none."""
    test_changes: tuple[TestChange, ...] = ()
    """The tests of the base that a person granted to change, without a plan that names them."""
    waits_for: tuple[FeatureId, ...] = ()
    """The shared prerequisites that must be merged before it begins anew; it is blocked until then."""
    set_aside: SetAside | None = None
    """Its work before a conflict with the base branch, until a patch resolves it."""

    @property
    def is_build(self) -> bool:
        """Tell whether the feature is a build of forge, which ends with a seal and not with a merge."""
        return self.branch.startswith(BUILD_BRANCHES)


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
