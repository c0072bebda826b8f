"""What the record keeps of plans that collide and wait."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.documents import Document, Plan
from aop.kernel.obligations import Accounting


class QueuedPlan(Struct, frozen=True, kw_only=True):
    """A plan that collides, and waits until it does not (AOP-209)."""

    feature_id: FeatureId
    plan: Plan
    submitted_by: str
    detected_at: str
    """When it first collided; it keeps its place while it stays the same."""
    collision_fingerprint: str
    required_resources: tuple[str, ...]
    """The locks that it gets together with its acceptance, if nobody else has them then."""
    waits_for: tuple[FeatureId, ...]
    accounting: Accounting | None = None
    """What it says of its spec's obligations; None where there is no spec."""


class BlockedQueue(Document, frozen=True, kw_only=True):
    """The plans that wait, in the order in which they are looked at again."""

    kind: ClassVar[str] = "blocked_queue"
    key: ClassVar[str] = "plans"

    plans: tuple[QueuedPlan, ...] = ()
