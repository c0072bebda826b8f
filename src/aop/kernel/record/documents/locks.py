"""Lock documents: leases and waiters of a shared resource."""

from typing import ClassVar

from msgspec import Struct

from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.documents.base import Document, NonEmpty, Positive


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
    """For people: what decides are the seconds below."""
    boot_id: str
    """The clock of the seconds: a start of the machine, or a database that machines share."""
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
