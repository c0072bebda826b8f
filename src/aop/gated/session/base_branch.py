"""Base branch: follows its remote before a branch starts and before a merge."""

from __future__ import annotations

from msgspec import Struct

from aop.core.ids import CommitId
from aop.gated.machine.state import Phase
from aop.gated.session.session import Session
from aop.kernel.gateway.calls import Kernel
from aop.kernel.merges.merge import base_head
from aop.kernel.ports.remotes import RemoteBranch


class BaseBranch(Struct, frozen=True, kw_only=True):
    """The base branch after its remote was asked."""

    commit: CommitId
    notes: tuple[str, ...] = ()
    is_diverged: bool = False
    """Whether the remote has commits that are not here, and the other way round."""


def latest_base(kernel: Kernel) -> BaseBranch:
    """Fetch the base branch, move it forward, and return it with the problems of its remote."""
    config = kernel.config()
    branch, here = config.policy.worktree.base_branch, base_head(kernel, config)
    if kernel.remotes is None or not config.policy.gated.fetch_base:
        return BaseBranch(commit=here)
    latest = kernel.remotes.latest(branch, here)
    if latest.state != "newer" or latest.commit is None:
        notes = tuple(map(kernel.redact, _remote_notes(latest, branch)))
        return BaseBranch(commit=here, notes=notes, is_diverged=latest.state == "diverged")
    behind = None
    with kernel.locks.base_branch():
        # If it moved concurrently, its new place counts.
        if kernel.git.branches.move(branch, to=latest.commit, old=here):
            behind = kernel.git.worktrees.checkout_behind(branch, old=here, new=latest.commit)
    return BaseBranch(commit=base_head(kernel, config), notes=() if behind is None else (behind,))


def follow_base(session: Session) -> None:
    """Bring a workflow that has begun nothing to the current base branch."""
    git, known = session.kernel.git, session.known
    base = base_head(session.kernel, session.config)
    if known.workflow.status is not Phase.INITIALIZING or known.draft is not None or base == known.base_commit:
        return
    tree = git.objects.tree_of(base)
    git.worktrees.ensure_detached(session.name, base)
    git.worktrees.show_tree(session.name, tree)
    session.learn(base_commit=base, head=base, tree=tree)


def _remote_notes(latest: RemoteBranch, branch: str) -> list[str]:
    if latest.state == "unreachable":
        return [f"The remote `{latest.remote}` could not be reached for `{branch}`: {latest.problem}"]
    if latest.state == "diverged":
        return [f"`{branch}` and that of the remote `{latest.remote}` have diverged; the local one is used."]
    return []
