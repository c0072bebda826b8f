"""Branch rule: a build writes the branches of builds, and no others (FORGE-208)."""

from __future__ import annotations

import re
from collections.abc import Collection

from aop.core.errors import ForgeInvariantError
from aop.forge.builds.documents import BRANCH_PREFIX
from aop.kernel.gateway.calls import Kernel

_BUILD_BRANCH = re.compile(re.escape(BRANCH_PREFIX) + "[a-z0-9][a-z0-9_-]{0,62}")


def require_build_branch(kernel: Kernel, branch: str) -> None:
    """Check a branch before a build writes it; no setting changes the rule. Raises: ForgeInvariantError."""
    refuse_other_branch(branch, {kernel.config().policy.worktree.base_branch})


def refuse_other_branch(branch: str, defaults: Collection[str]) -> None:
    """Refuse every branch that is not of a build, and each of the default branches. Raises: ForgeInvariantError."""
    if branch in defaults:
        raise ForgeInvariantError(f"`{branch}` is a default branch, and no build writes one.", branch=branch)
    if _BUILD_BRANCH.fullmatch(branch) is None:
        shown = ascii(branch[:100])[1:-1]
        raise ForgeInvariantError(f"`{shown}` is not the branch of a build.", branch=shown)
