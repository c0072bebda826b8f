"""Remotes port: the state of a branch at a remote."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from aop.core.ids import CommitId


class RemoteBranch(Struct, frozen=True, kw_only=True):
    """A branch at its remote, held against the one that is here."""

    state: Literal["no_remote", "same", "newer", "older", "diverged", "unreachable"]
    remote: str = ""
    commit: CommitId | None = None
    problem: str = ""
    """Why the remote could not be asked."""


class Remotes(Protocol):
    """The remotes of the managed repository; they are read, and never written."""

    def latest(self, branch: str, head: CommitId) -> RemoteBranch:
        """Fetch a branch from the remote that it follows, or else from `origin`, into a ref of AOP's own."""
