"""Parts of the kernel that few calls need: what they take is imported and built for the first call that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pathlib import Path

    from aop.adapters.git.process.program import GitDir
    from aop.brains.ports import Brain
    from aop.kernel.ports.handed_in import NewId
    from aop.kernel.ports.remotes import Remotes
    from aop.kernel.ports.reviewer import Reviewer
    from aop.kernel.ports.worktree_extras import Furnisher

MODULES = ("aop.adapters.git.worktrees.extras", "aop.adapters.git.refs.remotes", "aop.adapters.models.reviewer")
"""What is imported late."""


class _Late:
    """Stands where a part will be, and has all that the part has."""

    def __init__(self, build: Callable[[], object]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> object:
        return self._build()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._built, name)


def late_furnisher(git: GitDir, *, root: Path, common: Path) -> Furnisher:
    """Return the furnisher of worktrees."""

    def build() -> Furnisher:
        from aop.adapters.git.worktrees.extras import CheckoutFurnisher

        return CheckoutFurnisher(git, root=root, common=common)

    return cast("Furnisher", _Late(build))


def late_remotes(git: GitDir, environ: Mapping[str, str]) -> Remotes:
    """Return what asks the remotes of the repository."""

    def build() -> Remotes:
        from aop.adapters.git.refs.remotes import GitRemotes

        return GitRemotes(git, environ)

    return cast("Remotes", _Late(build))


def late_reviewer(brain: Callable[[str | None], Brain], new_id: NewId) -> Reviewer:
    """Return the reviewer that is a model."""

    def build() -> Reviewer:
        from aop.adapters.models.reviewer import ModelReviewer

        return ModelReviewer(brain, new_id)

    return cast("Reviewer", _Late(build))
