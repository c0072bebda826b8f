"""Endings of features: merged or deleted, also where the record no longer has them."""

from __future__ import annotations

from enum import StrEnum

from aop.core.ids import FeatureId
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Snapshot


class Ending(StrEnum):
    """How a feature ended for good."""

    MERGED = "merged"
    DELETED = "deleted"
    """Deleted before it was merged."""


def ending_of(view: Snapshot, feature_id: FeatureId) -> Ending | None:
    """Return how a feature ended; None for one that is open, failed, or new."""
    state = view.get(FeatureState, feature_id)
    if state is not None:
        return Ending.MERGED if state.status is Status.MERGED else None
    deleted = next(iter(view.journal(feature_id=feature_id, kinds=("feature_deleted",), newest=1)), None)
    if deleted is None:
        return None
    return Ending.MERGED if deleted.event.payload["status"] == Status.MERGED else Ending.DELETED
