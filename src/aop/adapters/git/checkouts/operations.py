"""Operations of git that can be in progress in a checkout, and how each ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.files.own_folders import small_content


class GitOperation(Struct, frozen=True, kw_only=True):
    """An operation that a person began and has not ended."""

    name: str
    ends_with: str


_BY_FILE: Mapping[str, GitOperation] = {
    "rebase-merge": GitOperation(name="rebase", ends_with="`git rebase --continue` or `git rebase --abort`"),
    "rebase-apply": GitOperation(name="rebase", ends_with="`git rebase --continue` or `git rebase --abort`"),
    "MERGE_HEAD": GitOperation(name="merge", ends_with="`git commit` or `git merge --abort`"),
    "CHERRY_PICK_HEAD": GitOperation(
        name="cherry-pick", ends_with="`git cherry-pick --continue` or `git cherry-pick --abort`"
    ),
    "REVERT_HEAD": GitOperation(name="revert", ends_with="`git revert --continue` or `git revert --abort`"),
    "BISECT_LOG": GitOperation(name="bisect", ends_with="`git bisect reset`"),
}


def operation_in_progress(git_dir: Path) -> GitOperation | None:
    """Return the operation that is in progress in the checkout of a git directory."""
    return next((operation for name, operation in _BY_FILE.items() if os.path.lexists(git_dir / name)), None)


def head_ref(git_dir: Path) -> str | None:
    """Return the ref that HEAD names; None if it names a commit."""
    head = os.fsdecode(small_content(f"{git_dir}/HEAD") or b"").strip()
    return head.removeprefix("ref: ") if head.startswith("ref: ") else None


def rebased_ref(git_dir: Path) -> str | None:
    """Return the branch that a rebase in progress will move when it ends."""
    for folder in ("rebase-merge", "rebase-apply"):
        name = small_content(f"{git_dir}/{folder}/head-name")
        if name is not None:
            return os.fsdecode(name).strip()
    return None
