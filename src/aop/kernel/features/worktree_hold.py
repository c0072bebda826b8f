"""Worktree hold: a tool locks a worktree first, and reads the feature after that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from aop.core.errors import VersionConflict
from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Kernel, the_feature
from aop.kernel.gateway.show import MOST_NAMED, QUARANTINED
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot

WORKTREE_WAIT_SECONDS = 10.0


def held_worktree(kernel: Kernel, feature_id: str) -> AbstractContextManager[None]:
    """Hold the worktree of a feature; it need not exist yet. Raises: WorktreeBusy."""
    return kernel.locks.worktree(FeatureId(feature_id), wait_seconds=WORKTREE_WAIT_SECONDS)


def note_quarantined(call: Call, feature_id: FeatureId, moved: Sequence[str]) -> None:
    """Note in the journal which files were quarantined; they were, even if the call fails."""
    if moved:
        with call.kernel.record.write() as tx:
            tx.append(call.event(QUARANTINED, feature_id, paths=list(moved[:MOST_NAMED]), count=len(moved)))


@contextmanager
def held_feature(kernel: Kernel, arguments: FeatureArguments, *, with_base: bool = False) -> Iterator[FeatureState]:
    """Hold a feature's worktree, and perhaps the base branch; yield the feature as it is then. Raises: WorktreeBusy."""
    base = kernel.locks.base_branch() if with_base else nullcontext()
    with held_worktree(kernel, arguments.feature_id), base:
        with kernel.record.read() as view:
            state = the_feature(view, arguments)
        yield state


def unchanged_feature(view: Snapshot, arguments: ChangeArguments, seen: FeatureState) -> FeatureState:
    """Return a feature that must still be as it was when its worktree was held. Raises: VersionConflict."""
    now = the_feature(view, arguments)
    if now.version != seen.version:
        raise VersionConflict(f"The feature `{now.feature_id}`", expected=seen.version, current=now.version)
    return now
