"""Tree history: the steps between a feature's trees, for undo and redo.

After the steps base, A, B two undos lead to A and to base, and a redo to A. A new tree after A takes the place of B.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from aop.kernel.record.port import Event

BASES = ("feature_initialised", "feature_rebased")
"""The events after which no earlier tree can come back: it stands on another base."""
TAKEN = "edits_taken"
"""The event for edits of a person in the worktree that became the feature's tree."""
NEW_TREES = ("patch_applied", TAKEN, "feature_rejected")
MOVES = ("tree_undone", "tree_redone")
WITH_TREES = (*BASES, *NEW_TREES, *MOVES)
"""The events that give a feature a tree."""


class TreeHistory(Struct, frozen=True, kw_only=True):
    """The trees of a feature in the order of its steps, and the place of its current tree."""

    trees: tuple[str, ...]
    at: int = 0

    @property
    def previous(self) -> str | None:
        """Return the tree that an undo leads to."""
        return self.trees[self.at - 1] if self.at else None

    @property
    def next(self) -> str | None:
        """Return the tree that a redo leads to."""
        return self.trees[self.at + 1] if self.at + 1 < len(self.trees) else None


def history_of(events: Iterable[Event], base: str) -> TreeHistory:
    """Return the history that events tell; `base` is the tree of a base whose event does not name it."""
    history = TreeHistory(trees=(base,))
    for event in events:
        tree = str(event.payload.get("tree", base))
        if event.kind in BASES:
            history = TreeHistory(trees=(tree,))
        elif event.kind in MOVES:
            history = _moved(history, tree, forward=event.kind == "tree_redone")
        else:
            history = _extended(history, tree)
    return history


def _moved(history: TreeHistory, tree: str, *, forward: bool) -> TreeHistory:
    """Move to the nearest place of a tree, first in the stated direction; a tree without a place is a new step."""
    trees, at = history.trees, history.at
    before = [place for place in range(at - 1, -1, -1) if trees[place] == tree]
    after = [place for place in range(at + 1, len(trees)) if trees[place] == tree]
    places = [*after, *before] if forward else [*before, *after]
    return msgspec.structs.replace(history, at=places[0]) if places else _extended(history, tree)


def _extended(history: TreeHistory, tree: str) -> TreeHistory:
    kept = history.trees[: history.at + 1]
    return TreeHistory(trees=(*kept, tree), at=len(kept))
