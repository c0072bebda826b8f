"""What the record keeps of what people want of a run: features that it should take, and what should rest."""

from typing import ClassVar

from aop.core.ids import FeatureId
from aop.kernel.documents import Document, NonEmpty
from aop.kernel.record import Snapshot


class Wish(Document, frozen=True, kw_only=True):
    """A feature that a person wants worked on; it stays until a supervisor has taken it."""

    kind: ClassVar[str] = "wish"

    feature_id: FeatureId
    again: bool = False
    """Whether it begins again where the kernel has it, instead of going on where its run is."""
    depends_on: tuple[FeatureId, ...] = ()
    wished_by: NonEmpty
    wished_at: NonEmpty


class Pause(Document, frozen=True, kw_only=True):
    """What should rest: no new turn and no new gate begins, across restarts, until somebody takes it back."""

    kind: ClassVar[str] = "pause"
    all: ClassVar[str] = "*"
    """The key of the pause of everything."""

    feature_id: FeatureId | None
    """None: everything rests."""
    paused_by: NonEmpty
    paused_at: NonEmpty


def is_paused(view: Snapshot, feature_id: FeatureId) -> bool:
    """Tell whether a feature rests, by itself or with all others."""
    return any(view.get(Pause, key) is not None for key in (Pause.all, feature_id))
