"""Worktree extras port: copies, links and free ports for a worktree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class ExtrasSource(Protocol):
    """The user's checkout as a source of what git does not track, and the ports of this machine."""

    def untracked(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Return the files that patterns name and git does not track, sorted. Raises: WorktreeSetupFailed."""

    def included(self, patterns: bytes) -> tuple[str, ...]:
        """Return the files that a text of patterns, as in `.gitignore`, names and git does not track, sorted.

        Raises: WorktreeSetupFailed.
        """

    def place(self, folder: Path, *, copies: Sequence[str], links: Sequence[str]) -> tuple[str, ...]:
        """Have these in a worktree, and nothing else that was placed there before; return what its links lead to.

        A path that is not there, that git tracks, or where the worktree has another file, is left out.
        Raises: WorktreeSetupFailed if something leads out of the checkout or is too large.
        """

    def identity(self, folder: Path) -> str:
        """Return what tells a worktree from one that is made in its place later."""

    def marks(self, folder: Path, paths: Sequence[str], *, whole: bool) -> Mapping[str, str]:
        """Return a mark of each of these paths in a worktree, or of `whole` files below them: a change changes it.

        A path that is not there has none.
        """

    def is_free(self, port: int) -> bool:
        """Tell whether a server could listen on a port now."""
