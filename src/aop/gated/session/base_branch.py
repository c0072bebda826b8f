"""Base branch: the start of a new branch, after following its remote (GATED-67)."""

from __future__ import annotations

from aop.core.ids import CommitId
from aop.gated.session.session import Session
from aop.kernel.merges.merge import base_head
from aop.kernel.ports.remotes import RemoteBranch


def latest_base(session: Session) -> CommitId:
    """Return the current base commit, and note problems with its remote."""
    kernel, branch = session.kernel, session.config.policy.worktree.base_branch
    here = base_head(kernel, session.config)
    if kernel.remotes is None or not session.policy.fetch_base:
        return here
    latest = kernel.remotes.latest(branch, here)
    if latest.state == "newer" and latest.commit is not None:
        with kernel.locks.base_branch():
            # If it moved concurrently, the new branch starts at its new place.
            if kernel.git.branches.move(branch, to=latest.commit, old=here):
                behind = kernel.git.worktrees.checkout_behind(branch, old=here, new=latest.commit)
                session.notes += [] if behind is None else [behind]
        return base_head(kernel, session.config)
    session.notes += map(kernel.redact, _remote_notes(latest, branch))
    return here


def _remote_notes(latest: RemoteBranch, branch: str) -> list[str]:
    if latest.state == "unreachable":
        return [f"The remote `{latest.remote}` could not be reached for `{branch}`: {latest.problem}"]
    if latest.state == "diverged":
        return [f"`{branch}` and that of the remote `{latest.remote}` have diverged; the local one is used."]
    return []
