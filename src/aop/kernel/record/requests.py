"""What the record keeps of what people want of a run: features that it should take, and what should rest."""

from aop.core.ids import FeatureId
from aop.kernel.record.documents.runs import Pause
from aop.kernel.record.port import Snapshot


def is_paused(view: Snapshot, feature_id: FeatureId) -> bool:
    """Tell whether a feature rests, by itself or with all others."""
    return any(view.get(Pause, key) is not None for key in (Pause.all, feature_id))
