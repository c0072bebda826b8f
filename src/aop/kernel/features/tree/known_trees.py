"""Known trees: the trees that a feature has had since it stands on its base."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.kernel.features.tree.tree_history import BASES, WITH_TREES
from aop.kernel.ports.git import GitObjects
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot


class TreeFacts(Struct, frozen=True, kw_only=True):
    number: int
    """Its number among the trees of the feature; 0 is the base, without changes."""
    tree: str
    at: str
    """When the feature got this tree, in UTC."""
    actor: str
    """The actor that made it."""
    operation_id: str
    """The call that made it."""
    event: str
    """The kind of change: a patch, an undo, the creation, or a move onto another base."""
    files: int
    """The number of files that the patch changed."""
    current: bool
    """Whether the feature has this tree now."""


def trees_of(objects: GitObjects, view: Snapshot, state: FeatureState) -> tuple[TreeFacts, ...]:
    """Return the trees of a feature, oldest first."""
    history: list[TreeFacts] = []
    for entry in view.journal(feature_id=state.feature_id, kinds=WITH_TREES):
        event, files = entry.event, entry.event.payload.get("files")
        is_base = event.kind in BASES
        # A feature cannot go back to trees of another base, or of a deleted feature of this name.
        history = [] if is_base else history
        fallback = objects.tree_of(state.base_commit) if event.kind == "feature_initialised" else state.tree
        facts = TreeFacts(
            number=len(history),
            tree=str(event.payload.get("tree", fallback)),
            at=event.at,
            actor=event.actor,
            operation_id=event.operation_id,
            event=event.kind,
            files=files if isinstance(files, int) else 0,
            current=False,
        )
        history.append(facts)
    newest = max((facts.number for facts in history if facts.tree == state.tree), default=-1)
    return tuple(msgspec.structs.replace(facts, current=facts.number == newest) for facts in history)


def matching_trees(wish: str, known: tuple[TreeFacts, ...]) -> list[str]:
    """Return the trees that a number or a short id names."""
    by_number = [facts.tree for facts in known if wish == str(facts.number)]
    return by_number or sorted({facts.tree for facts in known if len(wish) >= 7 and facts.tree.startswith(wish)})
