"""Endings: how features ended for good, by the record and by the journal."""

from __future__ import annotations

from enum import StrEnum

from aop.core.ids import FeatureId
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Snapshot


class FeatureEnding(StrEnum):
    """How a feature ended for good."""

    MERGED = "merged"
    DELETED = "deleted"
    """Deleted before it was merged."""


def ending_of(view: Snapshot, feature_id: FeatureId) -> FeatureEnding | None:
    """Return how a feature ended; None for one that is open, failed, or new."""
    state = view.get(FeatureState, feature_id)
    if state is not None:
        return FeatureEnding.MERGED if state.status is Status.MERGED else None
    deleted = next(iter(view.journal(feature_id=feature_id, kinds=("feature_deleted",), newest=1)), None)
    if deleted is None:
        return None
    return FeatureEnding.MERGED if deleted.event.payload["status"] == Status.MERGED else FeatureEnding.DELETED
