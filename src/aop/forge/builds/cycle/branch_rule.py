"""Branch rule: a build writes the branches of builds, and no others (FORGE-208)."""

from __future__ import annotations

from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.remotes import require_build_branch


def default_branches(kernel: Kernel) -> frozenset[str]:
    """Return the branches that are a default here or at the remote, besides `main` and `master`."""
    remote = "" if kernel.remotes is None else kernel.remotes.default_branch()
    return frozenset({kernel.config().policy.worktree.base_branch, remote}) - {""}


def check_branch(kernel: Kernel, branch: str) -> None:
    """Check a branch before a build writes it; no setting changes the rule. Raises: ForgeInvariantError."""
    require_build_branch(branch, default_branches(kernel))
