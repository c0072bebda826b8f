"""Requests to a run: features to take, and what holds them back."""

from datetime import datetime

from aop.core.ids import FeatureId
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.documents.runs import Pause, ProviderWait
from aop.kernel.record.port import Snapshot


def is_paused(view: Snapshot, feature_id: FeatureId) -> bool:
    """Tell whether a feature is paused, by itself or with all others."""
    return any(view.get(Pause, key) is not None for key in (Pause.all, feature_id))


def wait_of(view: Snapshot, feature_id: FeatureId) -> ProviderWait | None:
    """Return the wait for a provider that a feature takes part in; None if it does not wait."""
    return next((wait for wait in view.all(ProviderWait) if feature_id in wait.features), None)


def own_wait_name(provider: str, feature_id: FeatureId) -> str:
    """Return the name of a provider's trouble that only the words of one feature's agent tell of."""
    return f"{provider} ({feature_id})"


def wait_for(view: Snapshot, provider: str, now: datetime) -> ProviderWait | None:
    """Return the wait that holds back every turn at a provider now; None if there is none."""
    wait = view.get(ProviderWait, provider)
    return None if wait is None or wait.is_over(now) else wait


def question_on(view: Snapshot, topic: str, *, since: str = "") -> Question | None:
    """Return the open question on a topic that features share, or the newest one that ended since a moment."""
    found = [each for each in view.all(Question) if topic and each.about == topic]
    fitting = [each for each in found if each.is_open or (since and each.answered_at >= since)]
    return max(fitting, key=lambda each: (each.is_open, each.asked_at), default=None)
