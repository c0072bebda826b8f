"""Hub refs: those at the hub that features need, and those that they left behind.

A ref names commits, not a record: one that this record does not know is never given up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Protocol

from aop.kernel.features.tree.tree_history import BASES, WITH_TREES
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.kernel.record.port import Event, Snapshot, Transaction

TREES, MERGED, GATES = "refs/aop/trees", "refs/aop/merged", "refs/aop/gates"
_TURN = "turn."
_ENDINGS = ("feature_merged", "feature_deleted")


class HubSweep(Document, frozen=True, kw_only=True):
    """The removals at the hub. The version is odd while refs are being removed: then nothing counts as sent before."""

    kind: ClassVar[str] = "hub_sweep"
    key: ClassVar[str] = "hub"


def sweep_number(view: Snapshot) -> int:
    """Return the version of the sweep; 0 before the first."""
    sweep = view.get(HubSweep, HubSweep.key)
    return 0 if sweep is None else sweep.version


def is_sweeping(view: Snapshot) -> bool:
    """Tell whether refs are being removed, or a process died while it removed some."""
    return sweep_number(view) % 2 == 1


def set_sweeping(tx: Transaction, *, on: bool) -> None:
    """Begin a sweep, or end it."""
    if is_sweeping(tx) != on:
        tx.put(HubSweep(version=sweep_number(tx) + 1), HubSweep.key)


class NeededRefs:
    """The refs that features need as they are now: for their next turn or gate run, on whatever machine."""

    def __init__(self, view: Snapshot) -> None:
        living = [state for state in view.all(FeatureState) if state.status not in TERMINAL]
        self._features = {str(state.feature_id) for state in living}
        self._trees = {tree_ref(state.base_commit, state.tree) for state in living}
        self._trees |= {tree_ref(old.base_commit, old.tree) for state in living if (old := state.set_aside)}

    def __contains__(self, ref: str) -> bool:
        return ref in self._trees or _feature_of(ref) in self._features


def tree_ref(base: str, tree: str) -> str:
    """Return the ref of a tree on its base."""
    return f"{TREES}/{base}/{tree}"


def base_of(ref: str) -> str:
    """Return the base of the tree that a ref is for; empty for another ref."""
    return ref.removeprefix(f"{TREES}/").partition("/")[0] if ref.startswith(f"{TREES}/") else ""


def merge_ref(commit: str) -> str:
    """Return the ref of a merge."""
    return f"{MERGED}/{commit}"


class Commits(Protocol):
    """The commits that this machine has."""

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit; empty if it is not here."""

    def contains(self, newer: str, older: str) -> bool:
        """Tell whether one commit contains another; not if one of them is not here."""


def left_refs(view: Snapshot, listed: Collection[str], commits: Commits) -> Mapping[str, str]:
    """Return those of the listed refs that features of this record left behind, and since when."""
    bases = {base_of(ref) for ref in listed}
    # Of a base that no ref names, the tree need not be looked up.
    past = _Past(lambda base: commits.tree_of(base) if base in bases else "")
    for entry in view.journal(kinds=(*WITH_TREES, *_ENDINGS)):
        past.take(entry.event)
    for state in view.all(FeatureState):
        if state.status in TERMINAL:
            past.end(state.feature_id, state.last_updated, tree_ref(state.base_commit, state.tree))
    needed = NeededRefs(view)
    since = {ref: past.trees.get(ref) or past.ended.get(_feature_of(ref), "") for ref in sorted(listed)}
    merges = [commit for commit in past.merges if merge_ref(commit) in listed]
    for newest in merges[-1:]:
        # Who has the newest merge has those that it contains.
        older = [commit for commit in merges[:-1] if commits.contains(newest, commit)]
        since |= {merge_ref(commit): past.merges[newest] for commit in older}
    return {ref: moment for ref, moment in since.items() if moment and ref not in needed}


class _Past:
    """The trees that features had, and the features that have ended."""

    def __init__(self, tree_of: Callable[[str], str]) -> None:
        self._tree_of = tree_of
        self._bases: dict[str, str] = {}
        self._current: dict[str, str] = {}
        self.trees: dict[str, str] = {}
        """The refs of trees that a feature had, and when the last one left it."""
        self.ended: dict[str, str] = {}
        """The features that have ended, and when."""
        self.merges: dict[str, str] = {}
        """The merges, in order, and when each was made."""

    def take(self, event: Event) -> None:
        """Follow a feature by one event."""
        name, facts = str(event.feature_id), event.payload
        if event.kind in _ENDINGS:
            self.merges |= {str(facts["merge_commit"]): event.at} if "merge_commit" in facts else {}
            self.end(name, event.at, self._current.pop(name, ""))
            return
        if event.kind in BASES:
            self._bases[name] = str(facts.get("base_commit", facts.get("base", "")))
        self.ended.pop(name, None)
        self._leave(self._current.get(name, ""), event.at)
        base = self._bases.get(name, "")
        self._current[name] = tree_ref(base, str(facts.get("tree", "")) or self._tree_of(base))

    def end(self, name: str, at: str, ref: str) -> None:
        """Note that a feature needs neither its tree nor gates any more."""
        self.ended[name] = at
        self._leave(ref, at)

    def _leave(self, ref: str, at: str) -> None:
        self.trees[ref] = max(at, self.trees.get(ref, ""))


def _feature_of(ref: str) -> str:
    """Return the feature whose gates or turns a ref was for; empty for another ref."""
    if not ref.startswith(f"{GATES}/"):
        return ""
    name = ref.rpartition("/")[2]
    return name.removeprefix(_TURN).partition(".")[0] if name.startswith(_TURN) else name
