"""Remotes port: branches at a remote; only branches of builds are ever pushed."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, Protocol

from msgspec import Struct

from aop.core.errors import ForgeInvariantError
from aop.core.ids import CommitId
from aop.kernel.record.documents.features import BUILD_BRANCHES

DEFAULT_NAMES = frozenset({"main", "master"})
_BUILD_BRANCH = re.compile(re.escape(BUILD_BRANCHES) + "[a-z0-9_][a-z0-9_-]{0,62}")


class RemoteBranch(Struct, frozen=True, kw_only=True):
    """A branch at its remote, held against the one that is here."""

    state: Literal["no_remote", "same", "newer", "older", "diverged", "unreachable"]
    remote: str = ""
    commit: CommitId | None = None
    problem: str = ""
    """Why the remote could not be asked."""


class Publication(Struct, frozen=True, kw_only=True):
    """The outcome of a push."""

    state: Literal["no_remote", "pushed", "empty_remote", "rejected", "unreachable"]
    remote: str = ""
    problem: str = ""
    """Why it was not pushed; empty if it was, or if there is no remote."""


class Remotes(Protocol):
    """The remotes of the managed repository; what is written there are the branches of builds."""

    def latest(self, branch: str, head: CommitId) -> RemoteBranch:
        """Fetch a branch from the remote that it follows, or else from `origin`, into a ref of AOP's own."""

    def default_branch(self) -> str:
        """Return the default branch of `origin` as it was last fetched; empty if that is not known."""

    def publish(self, branch: str, commit: CommitId, *, never: Collection[str] = ()) -> Publication:
        """Push a commit to the branch of a build at `origin`, and nothing else; never by force.

        Raises: ForgeInvariantError for any other branch, for those in `never`, and for the default branch there.
        """


def require_build_branch(branch: str, defaults: Collection[str]) -> None:
    """Check a branch before a build writes it: an allow-list of names, and none of the default branches.

    No setting changes this (FORGE-208). Raises: ForgeInvariantError.
    """
    shown = ascii(branch[:100])[1:-1]
    if branch in DEFAULT_NAMES or branch in defaults:
        raise ForgeInvariantError(f"`{shown}` is a default branch, and no build writes one.", branch=shown)
    if _BUILD_BRANCH.fullmatch(branch) is None:
        raise ForgeInvariantError(f"`{shown}` is not the branch of a build.", branch=shown)
