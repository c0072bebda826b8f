"""Plan documents: accepted plans, and plans that wait for another feature."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import Document, NonEmpty, Positive
from aop.kernel.record.documents.gate_runs import TestChange
from aop.kernel.record.documents.obligations import Accounting


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
    """A plan as a planner submits it and as `plan.json` holds it (AOP-066..080)."""

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
    test_changes: Annotated[tuple[TestChange, ...], Meta(max_length=500)] | None = None
    """The tests of the base that the feature removes, renames or contradicts; without it each of them must pass."""


class AcceptedPlan(Document, frozen=True, kw_only=True):
    """The plan that a feature's patches are judged by; its version is the plan's."""

    kind: ClassVar[str] = "plan"
    plan: Plan


class QueuedPlan(Struct, frozen=True, kw_only=True):
    """A plan that collides, and waits until it does not (AOP-209)."""

    feature_id: FeatureId
    plan: Plan
    submitted_by: str
    detected_at: str
    """When it first collided; it keeps its place while it stays the same."""
    collision_fingerprint: str
    required_resources: tuple[str, ...]
    """The locks that it gets with its acceptance, if they are free then."""
    waits_for: tuple[FeatureId, ...]
    accounting: Accounting | None = None
    """Its account of the spec's obligations; None without a spec."""


class BlockedQueue(Document, frozen=True, kw_only=True):
    """The plans that wait, in the order in which they are looked at again."""

    kind: ClassVar[str] = "blocked_queue"
    key: ClassVar[str] = "plans"

    plans: tuple[QueuedPlan, ...] = ()
