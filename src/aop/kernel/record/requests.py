"""Requests to a run: features to take, and what to pause."""

from aop.core.ids import FeatureId
from aop.kernel.record.documents.runs import Pause
from aop.kernel.record.port import Snapshot


def is_paused(view: Snapshot, feature_id: FeatureId) -> bool:
    """Tell whether a feature is paused, by itself or with all others."""
    return any(view.get(Pause, key) is not None for key in (Pause.all, feature_id))
