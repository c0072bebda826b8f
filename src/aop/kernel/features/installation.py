"""Installation: the files that the set-up of a checkout left beside its tree."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from aop.core.ids import CommitId, FeatureId, TreeId
from aop.core.text.json import canonical_json
from aop.kernel.config.policy import Policy
from aop.kernel.config.worktrees import SetupCommand
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.record.documents.base import Document, next_version

Environment = tuple[tuple[str, str], ...]

MOST_CLOSED = 200
"""How many paths a sandbox closes: each is a mount, and thousands of them take longer than a step, or fail."""


class SetupProgress(Document, frozen=True, kw_only=True):
    """The set-up commands that have run in a feature's worktree."""

    kind: ClassVar[str] = "readiness"

    feature_id: FeatureId
    worktree: str
    """The identity of the worktree; a new one is not set up."""
    done: tuple[str, ...]
    """A digest of each command, together with all before it."""
    installed: Mapping[str, str] = {}
    """A mark of each path that they left beside the tree."""
    contents: str = ""
    """A digest of the marks of all files at and below these paths."""


class CheckoutExtras(Struct, frozen=True, kw_only=True):
    """Environment and readable paths for the processes in a checkout."""

    env: Environment = ()
    readable: tuple[str, ...] = ()
    """The targets of the links."""
    installed: tuple[str, ...] = ()
    """What the set-up left beside the tree, which no step may change."""
    closed: tuple[str, ...] = ()
    """The paths that a sandbox keeps read-only for a step."""
    marks: Mapping[str, str] = {}
    """A mark of each path of it, or of each file where no sandbox keeps it read-only."""


class SetupTarget(Struct, frozen=True, kw_only=True):
    """The checkout that is set up."""

    feature_id: FeatureId
    tree: TreeId
    base_commit: CommitId
    """The commit of the base branch that the tree was made on."""
    folder: Path
    logs: str = ""
    """The folder of the logs, from the root of the repository; empty for that of the feature."""
    exact: bool = False
    """Whether nothing but the tree, the extras and what the set-up installed may be there afterwards."""


def with_installed(kernel: Kernel, target: SetupTarget, extras: CheckoutExtras, policy: Policy) -> CheckoutExtras:
    """Add what lies beside the tree of a checkout that is set up."""
    paths = kernel.git.worktrees.beside(target.folder, target.tree)
    is_closed = _keeps_read_only(kernel, policy, paths)
    marks = kernel.worktree_extras.marks(target.folder, paths, whole=not is_closed)
    return msgspec.structs.replace(extras, installed=paths, closed=paths if is_closed else (), marks=marks)


def _keeps_read_only(kernel: Kernel, policy: Policy, paths: Collection[str]) -> bool:
    """Tell whether the sandbox can close these parts of the worktree to a step; otherwise each file is compared."""
    level = kernel.processes.sandbox_level(policy.execution.sandbox)
    return level == "bubblewrap" and len(paths) <= MOST_CLOSED


def changed_installation(kernel: Kernel, folder: Path, extras: CheckoutExtras, policy: Policy) -> tuple[str, ...]:
    """Return the paths of what the set-up installed that are no longer as they were."""
    if not extras.installed:
        return ()
    whole = not _keeps_read_only(kernel, policy, extras.installed)
    found = kernel.worktree_extras.marks(folder, extras.installed, whole=whole)
    return tuple(sorted(path for path in {*found, *extras.marks} if found.get(path) != extras.marks.get(path)))


def intact_progress(kernel: Kernel, target: SetupTarget, policy: Policy) -> SetupProgress | None:
    """Return the recorded set-up of a worktree, if it is still that worktree and nothing changed what was installed."""
    with kernel.record.read() as view:
        known = view.get(SetupProgress, target.feature_id)
    if known is None or not known.contents or known.worktree != kernel.worktree_extras.identity(target.folder):
        return None
    paths, marks = tuple(known.installed), kernel.worktree_extras.marks
    if marks(target.folder, paths, whole=False) != known.installed:
        return None
    if _keeps_read_only(kernel, policy, paths) or _digest(marks(target.folder, paths, whole=True)) == known.contents:
        return known
    return None


def _digest(marks: Mapping[str, str]) -> str:
    return hashlib.sha256(canonical_json(dict(marks))).hexdigest()


def record_finished(call: Call, target: SetupTarget, done: tuple[str, ...], command: SetupCommand) -> None:
    """Record that a command ran in a feature's worktree, and what lies beside its tree since."""
    extras, feature_id = call.kernel.worktree_extras, target.feature_id
    paths = call.kernel.git.worktrees.beside(target.folder, target.tree)
    installed = extras.marks(target.folder, paths, whole=False)
    contents = _digest(extras.marks(target.folder, paths, whole=True))
    with call.kernel.record.write() as tx:
        progress = SetupProgress(
            version=next_version(tx.get(SetupProgress, feature_id)),
            feature_id=feature_id,
            worktree=extras.identity(target.folder),
            done=done,
            installed=installed,
            contents=contents,
        )
        tx.put(progress, feature_id)
        tx.append(call.event("worktree_set_up", feature_id, command=list(command.cmd)))
