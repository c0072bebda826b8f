"""Scratch trees: temporary copies for agents, and the diff of their changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from aop.adapters.git.process.program import GitProgram
from aop.adapters.git.worktrees.rescue import Rescuer
from aop.core.errors import NoUsableAnswer
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId
from aop.kernel.gateway.calls import Kernel, feature_named
from aop.kernel.ports.git import Git

_ANY_TIME = datetime(1980, 1, 1, tzinfo=UTC)


class Scratch(Struct, frozen=True, kw_only=True):
    """A temporary checkout, and the commit and tree that it was made from."""

    folder: Path
    commit: CommitId
    tree: TreeId


@contextmanager
def scratch_of(kernel: Kernel, feature_id: FeatureId) -> Iterator[Scratch]:
    """Check out a temporary copy of a feature's tree."""
    with kernel.record.read() as view:
        state = feature_named(view, feature_id)
    with scratch_at(kernel.git, state.base_commit, state.tree) as made:
        yield made


@contextmanager
def scratch_at(git: Git, base: CommitId, tree: TreeId) -> Iterator[Scratch]:
    """Check out a temporary copy of a tree."""
    commit = (
        base if tree == git.objects.tree_of(base) else git.objects.commit(tree, [base], "Scratch\n", when=_ANY_TIME)
    )
    with git.worktrees.scratch(commit) as folder:
        yield Scratch(folder=folder, commit=commit, tree=tree)


class ScratchReader:
    """Reads the changes in scratch trees of one repository."""

    def __init__(self, git: Git, root: Path, environ: Mapping[str, str]) -> None:
        self._git = git
        self._root = root
        self._environ = environ

    def diff(self, scratch: Scratch) -> str:
        """Return the changes since the checkout, without ignored files. Raises: NoUsableAnswer if it is not UTF-8."""
        rescuer = Rescuer(GitProgram(self._environ), self._root)
        changed = rescuer.unsaved_tree(scratch.folder, scratch.commit)
        if changed is None:
            return ""
        try:
            return self._git.objects.diff(scratch.tree, TreeId(ObjectId(changed))).decode()
        except UnicodeDecodeError as error:
            raise NoUsableAnswer("The files that the agent left are not valid UTF-8.") from error
