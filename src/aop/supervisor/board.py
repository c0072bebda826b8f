"""Board: what each feature of this process does now, as its pipeline reports it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import FeatureId, RunId

NOBODY: Json = {"nobody": True}
"""The answer to a question that was closed without one."""


class BoardEntry(Struct, frozen=True, kw_only=True):
    """The current activity of a feature, and the reason it waits."""

    does: Literal["works", "asks", "waits", "rests", "sleeps", "ended"]
    run_id: RunId
    topic: str = ""
    """The topic on which the run waits: a question's id, or the name of a wait."""
    others: tuple[str, ...] = ()
    """The features that it waits for."""
    since: int = 0
    """The number of the newest journal entry when the wait began."""
    outcome: Mapping[str, Any] = {}


class Board:
    """The entries of all features; safe for use from any thread."""

    def __init__(self) -> None:
        self._entries: dict[FeatureId, BoardEntry] = {}
        self._changed = threading.Condition()

    def put(self, feature_id: FeatureId, entry: BoardEntry) -> None:
        """Set the entry of a feature."""
        with self._changed:
            self._entries[feature_id] = entry
            self._changed.notify_all()

    def wake(self, feature_id: FeatureId, entry: BoardEntry) -> bool:
        """Mark a feature as working if its entry is unchanged; return whether it was."""
        with self._changed:
            if self._entries.get(feature_id) != entry:
                return False
            self._entries[feature_id] = BoardEntry(does="works", run_id=entry.run_id)
            self._changed.notify_all()
            return True

    def enter(self, feature_id: FeatureId, run_id: RunId) -> None:
        """Mark a feature as working on a run, unless that run has already set an entry."""
        with self._changed:
            known = self._entries.get(feature_id)
            if known is None or known.run_id != run_id:
                self._entries[feature_id] = BoardEntry(does="works", run_id=run_id)
                self._changed.notify_all()

    def entries(self) -> dict[FeatureId, BoardEntry]:
        """Return a copy of all entries."""
        with self._changed:
            return dict(self._entries)

    def await_change(self, seconds: float) -> None:
        """Wait for a change, at most this long."""
        with self._changed:
            self._changed.wait(seconds)
