"""Where each feature of a run stands right now, as the pipelines of this process say; the record knows the rest."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import FeatureId, RunId

NOBODY: Json = {"nobody": True}
"""What a run is told that asked a person, when its question was closed without an answer."""


class BoardEntry(Struct, frozen=True, kw_only=True):
    """What a feature does, and what it waits for."""

    does: Literal["works", "asks", "waits", "rests", "ended"]
    run_id: RunId
    topic: str = ""
    """What the run asks the engine for; a question's id, or the name of a wait."""
    others: tuple[str, ...] = ()
    """The features that are in the way."""
    since: int = 0
    """The newest entry of the journal when it began to wait."""
    outcome: Mapping[str, Any] = {}


class Board:
    """All features of this process; any thread may write or look."""

    def __init__(self) -> None:
        self._entries: dict[FeatureId, BoardEntry] = {}
        self._changed = threading.Condition()

    def put(self, feature_id: FeatureId, entry: BoardEntry) -> None:
        """Note where a feature stands now."""
        with self._changed:
            self._entries[feature_id] = entry
            self._changed.notify_all()

    def wake(self, feature_id: FeatureId, entry: BoardEntry) -> bool:
        """Note that a feature works on, if it still stands where it was seen; tell whether it did."""
        with self._changed:
            if self._entries.get(feature_id) != entry:
                return False
            self._entries[feature_id] = BoardEntry(does="works", run_id=entry.run_id)
            self._changed.notify_all()
            return True

    def enter(self, feature_id: FeatureId, run_id: RunId) -> None:
        """Note that a feature is on a run, unless that run has said more already: it may be at work since the start."""
        with self._changed:
            known = self._entries.get(feature_id)
            if known is None or known.run_id != run_id:
                self._entries[feature_id] = BoardEntry(does="works", run_id=run_id)
                self._changed.notify_all()

    def entries(self) -> dict[FeatureId, BoardEntry]:
        """Return all of them, as they are now."""
        with self._changed:
            return dict(self._entries)

    def await_change(self, seconds: float) -> None:
        """Wait until something is noted, at most so long."""
        with self._changed:
            self._changed.wait(seconds)
