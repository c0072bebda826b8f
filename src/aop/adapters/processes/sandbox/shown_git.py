"""Shown git directory: the one that a step gets in place of the repository's.

Steps that run in one worktree at the same time share it. Bubblewrap mounts it over the repository's own. Landlock
cannot, so the file `.git` of the worktree leads there meanwhile. It is restored afterwards, whatever a step made of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from aop.adapters.files.own_folders import remove_folder, small_content

Report: TypeAlias = Callable[[str], None]
ShowGit: TypeAlias = Callable[[Path, Report], AbstractContextManager[Path | None]]
"""Makes the git directory that the steps in a worktree are shown, reporting what takes long; None if there is none."""


class HiddenRepository(Struct, frozen=True, kw_only=True):
    """The repository that sandboxes hide, and what they show instead."""

    root: Path
    """The user's own checkout."""
    git_dir: Path
    show: ShowGit


def closed_places(repository: HiddenRepository | None) -> tuple[str, ...]:
    """Return the places that sandboxes hide: the checkout, and the git directory."""
    return () if repository is None else (os.path.realpath(repository.root), os.path.realpath(repository.git_dir))


class ShownGit:
    """The git directories that are shown now, each as long as a step needs it."""

    def __init__(self, repository: HiddenRepository | None) -> None:
        self._show = (lambda _worktree, _report: nullcontext()) if repository is None else repository.show
        self._lock = threading.Lock()
        self._held: dict[tuple[Path, bool], tuple[ExitStack, Path | None]] = {}
        self._users: dict[tuple[Path, bool], int] = {}

    @contextmanager
    def of(self, worktree: Path, report: Report, *, linked: bool = False) -> Iterator[Path | None]:
        """Show a git directory while a step runs; `linked`: the worktree's own file leads there."""
        key = (worktree, linked)
        with self._lock:
            if key not in self._held:
                self._held[key] = self._shown(worktree, report, linked=linked)
            self._users[key] = self._users.get(key, 0) + 1
        try:
            yield self._held[key][1]
        finally:
            with self._lock:
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key]
                    self._held.pop(key)[0].close()

    def _shown(self, worktree: Path, report: Report, *, linked: bool) -> tuple[ExitStack, Path | None]:
        with ExitStack() as stack:
            shown = stack.enter_context(self._show(worktree, report))
            if linked:
                stack.enter_context(_linked_to(shown, worktree))
            return stack.pop_all(), shown


@contextmanager
def _linked_to(shown: Path | None, worktree: Path) -> Iterator[None]:
    """Let the file `.git` of a worktree lead to a git directory, and restore it afterwards."""
    link = worktree / ".git"
    before = small_content(link)
    try:
        if before is not None and shown is not None:
            name = os.path.basename(os.fsdecode(before).rstrip("\n"))
            link.write_bytes(os.fsencode(f"gitdir: {shown}/worktrees/{name}\n"))
        yield
    finally:
        if before is not None and small_content(link) != before:
            if link.is_dir() and not link.is_symlink():
                remove_folder(link)
            else:
                link.unlink(missing_ok=True)
            link.write_bytes(before)
