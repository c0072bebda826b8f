"""Branches, and the refs that keep trees alive."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aop.adapters.git.command import GitDir, Ran
from aop.adapters.git.folders import locked, own_folder
from aop.adapters.git.records import object_id
from aop.core.errors import BranchExists, Fault, InvalidConfiguration
from aop.core.ids import CommitId, FeatureId, ObjectId

_NOT_IN_A_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|^[-./]|[./]$")
# Git holds the lock of a ref for milliseconds, and with hooks off nothing can make it longer.
_LOCK_SECONDS = 5.0
_FAILED = 128


class Refs:
    """The refs of the managed repository."""

    def __init__(self, git: GitDir, *, root: Path, common: Path) -> None:
        self._git = git
        self._root = root
        self._common = common

    def branch_head(self, branch: str) -> CommitId | None:
        """Return the commit of a local branch, or None."""
        if not is_branch_name(branch):
            return None
        ref = f"refs/heads/{branch}"
        # The pattern also finds what is below a folder of that name.
        listed = self._git.run("for-each-ref", "--format=%(objectname) %(refname)", "--", ref).out.decode("utf-8")
        heads = (line.split(" ") for line in listed.splitlines())
        return next((CommitId(ObjectId(oid)) for oid, name in heads if name == ref), None)

    def create_branch(self, branch: str, at: CommitId) -> None:
        """Make a branch; fine if it is there already."""
        ran = self._write(branch_ref(branch), object_id(at), "0" * len(at))
        if ran.code == 0 or (head := self.branch_head(branch)) == at:
            return
        if head is not None:
            raise BranchExists(f"The branch `{branch}` exists already, at `{head[:12]}`.", branch=branch, commit=head)
        if "exists; cannot create" in ran.err:
            raise BranchExists(f"The branch `{branch}` cannot be made: {self._git.cleaned(ran.err)}", branch=branch)
        raise Fault(f"The branch `{branch}` cannot be made: {self._git.cleaned(ran.err)}")

    def move_branch(self, branch: str, *, to: CommitId, old: CommitId) -> bool:
        """Move a branch if it still is at `old`."""
        ran = self._write(branch_ref(branch), object_id(to), object_id(old))
        if ran.code == 0:
            return True
        if self.branch_head(branch) != old:
            return False
        raise Fault(f"The branch `{branch}` cannot be moved: {self._git.cleaned(ran.err)}")

    def keep(self, feature_id: FeatureId, oid: ObjectId) -> None:
        """Point the feature's own ref at an object."""
        ran = self._write(f"refs/aop/features/{feature_id}", object_id(oid))
        if ran.code != 0:
            raise Fault(f"The tree of `{feature_id}` cannot be kept: {self._git.cleaned(ran.err)}")

    def drop_stale_locks(self) -> None:
        """Remove the lock files that a killed git of AOP left: they would stop the user's own git."""
        with suppress(FileNotFoundError):
            if (self._root / ".aop" / "locks" / "refs").lstat().st_size:
                with locked(own_folder(self._root, ".aop", "locks") / "refs") as note:
                    self._drop_left_behind(note)

    def _write(self, ref: str, *values: str) -> Ran:
        # A git that outlives a killed AOP still moves the ref: whoever asks where it is must wait for it.
        with self._noted(ref) as note:
            arguments = ("update-ref", "-m", "aop", "--", ref, *values)
            return self._git.run(*arguments, fine=(0, 1, _FAILED), holding=(note,))

    @contextmanager
    def _noted(self, ref: str) -> Iterator[int]:
        """Write down which ref is being written, so that the lock file of a killed git is known to be AOP's."""
        with locked(own_folder(self._root, ".aop", "locks") / "refs") as note:
            self._drop_left_behind(note)
            os.pwrite(note, ref.encode("utf-8"), 0)
            yield note
            os.ftruncate(note, 0)

    def _drop_left_behind(self, note: int) -> None:
        left_behind = os.pread(note, 4096, 0).decode("utf-8", "replace")
        if left_behind.startswith("refs/") and is_branch_name(left_behind):
            self._drop_lock(self._common / f"{left_behind}.lock")
            self._drop_lock(self._common / "HEAD.lock")
        os.ftruncate(note, 0)

    def _drop_lock(self, lock: Path) -> None:
        until = time.monotonic() + _LOCK_SECONDS
        with suppress(FileNotFoundError):
            while time.time() - os.lstat(lock).st_mtime < _LOCK_SECONDS and time.monotonic() < until:
                time.sleep(0.02)
            lock.unlink()


def is_branch_name(name: str) -> bool:
    """Tell whether git takes the name for a branch, and cannot take it for anything else."""
    return bool(name) and name not in ("@", "HEAD") and not _NOT_IN_A_BRANCH.search(name)


def branch_ref(branch: str) -> str:
    """Return the full name of a branch.

    Raises: InvalidConfiguration.
    """
    if not is_branch_name(branch):
        raise InvalidConfiguration(f"{branch[:80]!a} is not a name that git takes for a branch.", branch=branch[:80])
    return f"refs/heads/{branch}"
