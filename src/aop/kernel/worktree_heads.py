"""What a worktree stands on, where that is not simply the branch of its feature."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from aop.core.ids import CommitId, FeatureId


class WorktreeHeads(Protocol):
    """A part of the managed repository: see `aop.kernel.ports.Git`."""

    def ensure_detached_worktree(self, feature_id: FeatureId, commit: CommitId) -> Path:
        """Make the worktree at a commit, on no branch; one that is there is taken off its branch. Return its folder."""

    def worktree_head(self, feature_id: FeatureId) -> str | None:
        """Return the full ref or the commit that HEAD of the worktree names; None if git knows no such worktree."""
