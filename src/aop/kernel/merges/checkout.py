"""Checkout of the base branch: whether it can follow the merge of a feature."""

from __future__ import annotations

from aop.kernel.gateway.calls import Kernel
from aop.kernel.merges.merge import base_head, merge_conflict, work_of
from aop.kernel.ports.git import ConflictedPaths
from aop.kernel.record.documents.features import FeatureState


def check_checkout_follows(kernel: Kernel, state: FeatureState) -> None:
    """Check, before a person is asked, that the checkout can follow the merge; the merge itself checks again.

    Raises: MergeConflict, CheckoutChanged, CheckoutBusy, CheckoutNeedsFilter.
    """
    git, config = kernel.git, kernel.config()
    merged = git.merges.merge(base_head(kernel, config), work_of(state))
    if isinstance(merged, ConflictedPaths):
        raise merge_conflict(git.objects, merged, state)
    git.checkout.check(config.policy.worktree.base_branch, merged.tree)
