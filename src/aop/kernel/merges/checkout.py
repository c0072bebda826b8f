"""Checkout of the base branch: whether it can follow the merge of a feature."""

from __future__ import annotations

from datetime import UTC, datetime

from aop.kernel.gateway.calls import Kernel
from aop.kernel.merges.merge import base_head, commit_on_branch, merge_conflict
from aop.kernel.ports.git import ConflictedPaths
from aop.kernel.record.documents.features import FeatureState

# The commit is never on a branch: with a fixed time it is the same one each time.
_TRIAL_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def check_checkout_follows(kernel: Kernel, state: FeatureState) -> None:
    """Check, before a person is asked, that the checkout can follow the merge; the merge itself checks again.

    Raises: MergeConflict, CheckoutChanged, CheckoutBusy, CheckoutNeedsFilter.
    """
    git, config = kernel.git, kernel.config()
    base = base_head(kernel, config)
    commit = commit_on_branch(git.objects, state)
    commit = commit or git.objects.commit(state.tree, [state.base_commit], "Trial\n", when=_TRIAL_TIME)
    merged = git.merges.merge(base, commit)
    if isinstance(merged, ConflictedPaths):
        raise merge_conflict(git.objects, merged, state, base=base, feature_commit=commit)
    git.checkout.check(config.policy.worktree.base_branch, merged.tree)
