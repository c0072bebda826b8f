"""Branches, and the refs that keep trees from being collected."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aop.adapters.files.exchange import put_in_place
from aop.adapters.files.own_folders import flush_folder
from aop.adapters.git.process.long_lived import LongLivedGit
from aop.adapters.git.process.output import bytes_of, object_id
from aop.adapters.git.process.program import GitDir, GitResult
from aop.adapters.git.refs.lock_notes import RefNotes, is_branch_name
from aop.core import ids
from aop.core.errors import BranchExists, Fault, InvalidConfiguration
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId

_FAILED = 128
_UPDATE = ("update-ref", "-m", "aop")


class _NotPlain(Exception):
    """A ref that is not stored as an object id in a file."""


class Branches:
    """Implements `aop.kernel.ports.git.GitBranches`."""

    def __init__(
        self,
        git: GitDir,
        *,
        root: Path,
        common: Path,
        before_move: Callable[[str, CommitId], None] = lambda _branch, _old: None,
    ) -> None:
        self._git = git
        self._notes = notes = RefNotes(root=root, common=common)
        self._writer = LongLivedGit(lambda: git.start(*_UPDATE, "--stdin", holding=(notes.descriptor(),)))
        self._common = common
        self._before_move = before_move

    def head(self, branch: str) -> CommitId | None:
        """Return the commit of a local branch, or None."""
        if not is_branch_name(branch):
            return None
        ref = f"refs/heads/{branch}"
        try:
            head = self._loose_id(ref) or self._packed_id(ref)
        except _NotPlain:
            head = self._id_by_git(ref)
        return None if head is None else CommitId(ObjectId(head))

    def create(self, branch: str, at: CommitId) -> None:
        """Make a branch; do nothing if it already exists at this commit."""
        ran = self._set(branch_ref(branch), object_id(at), "0" * len(at))
        if ran is None or (head := self.head(branch)) == at:
            return
        if head is not None:
            raise BranchExists(f"The branch `{branch}` already exists, at `{head[:12]}`.", branch=branch, commit=head)
        problem = f"The branch `{branch}` cannot be made: {self._git.clean_message(ran.err)}"
        if "exists; cannot create" in ran.err:
            raise BranchExists(problem, branch=branch)
        raise Fault(problem)

    def move(self, branch: str, *, to: CommitId, old: CommitId) -> bool:
        """Move a branch if it still is at `old`."""
        ref = branch_ref(branch)
        self._before_move(branch, old)
        failed = self._set(ref, object_id(to), object_id(old))
        head = to if failed is None else self.head(branch)
        # On a full disk git can move the branch and then fail to write its log.
        if head == to:
            # Git flushes the file of a ref, but not its folder, which exists only for refs in files.
            with suppress(FileNotFoundError):
                flush_folder((self._common / ref).parent)
            return True
        if failed is None or head != old:
            return False
        raise Fault(f"The branch `{branch}` cannot be moved: {self._git.clean_message(failed.err)}")

    def keep(self, feature_id: FeatureId, tree: TreeId, *, aside: bool = False) -> None:
        """Point the feature's own ref at an object; or, aside, one that stays."""
        name = ids.feature_id(feature_id)
        ref = f"refs/aop/undone/{name}/{object_id(tree)}" if aside else f"refs/aop/features/{name}"
        ran = None if self._overwrite(ref, object_id(tree)) else self._set(ref, tree)
        if ran is not None:
            raise Fault(f"The tree of `{feature_id}` cannot be kept: {self._git.clean_message(ran.err)}")

    def forget(self, feature_id: FeatureId) -> None:
        """Remove the feature's own ref; fine if there is none."""
        self._delete(f"refs/aop/features/{ids.feature_id(feature_id)}")

    def delete(self, branch: str, *, at: CommitId) -> bool:
        """Delete a branch if it is still at a commit; tell whether it is gone."""
        ran = self._delete(branch_ref(branch), object_id(at))
        head = self.head(branch)
        if ran.code and head == at:
            raise Fault(f"The branch `{branch}` cannot be deleted: {self._git.clean_message(ran.err)}")
        return head is None

    def _delete(self, ref: str, *old: str) -> GitResult:
        with self._notes.of(ref):
            holding = (self._notes.descriptor(),)
            return self._git.run("update-ref", "-d", "--", ref, *old, fine=(0, 1, _FAILED), holding=holding)

    def drop_stale_locks(self) -> None:
        """Remove the lock files that a killed git of AOP left: they would stop the user's own git."""
        self._notes.clear()

    def close(self) -> None:
        """End the process that writes refs; the next write starts it again."""
        self._writer.close()

    def _overwrite(self, ref: str, oid: str) -> bool:
        """Overwrite the file of a ref without a flush (it is rewritten after a restart); tell whether it could."""
        path, lock = f"{self._common}/{ref}", f"{self._common}/{ref}.lock"
        with self._notes.of(ref):
            try:
                known = self._loose_id(ref)
                if known is None or known == oid:
                    return known == oid
                descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            except _NotPlain:
                if os.path.isfile(path) and not Path(path).read_bytes().strip(b"\0\n"):
                    os.unlink(path)
                return False
            except OSError:
                return False
            try:
                with open(descriptor, "wb") as file:
                    file.write(f"{oid}\n".encode())
                put_in_place(lock, path)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(lock)
                return False
        return True

    def _set(self, ref: str, *values: str) -> GitResult | None:
        """Write a ref, again by a single git if the long-lived one fails (perhaps after it wrote); return a failure."""
        question = f"start\nupdate {ref} {' '.join(values)}\ncommit\n".encode()
        with self._notes.of(ref) as drop_left_behind:
            # Another program's lock is left alone: a single git waits for it, and says what it found.
            if not self._notes.is_locked(ref):
                with suppress(Fault):
                    self._writer.ask(question, lambda answers: (answers.line(), answers.line()))
                    return None
                drop_left_behind()
            ran = self._run(ref, *values)
        return None if ran.code == 0 else ran

    def _run(self, ref: str, *values: str) -> GitResult:
        holding = (self._notes.descriptor(),)
        return self._git.run(*_UPDATE, "--", ref, *values, fine=(0, 1, _FAILED), holding=holding)

    def _loose_id(self, ref: str) -> str | None:
        """Return the id in the file of a ref; None if there is no file."""
        try:
            descriptor = os.open(f"{self._common}/{ref}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _NotPlain from error
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return None
            return _plain_id(os.read(descriptor, 4096).removesuffix(b"\n"))
        finally:
            os.close(descriptor)

    def _packed_id(self, ref: str) -> str | None:
        """Return the id of a ref in `packed-refs`, or None."""
        if (self._common / "reftable").exists():
            raise _NotPlain
        try:
            packed = (self._common / "packed-refs").read_bytes()
        except FileNotFoundError:
            return None
        end = packed.find(bytes_of(f" {ref}\n"))
        return None if end < 0 else _plain_id(packed[packed.rfind(b"\n", 0, end) + 1 : end])

    def _id_by_git(self, ref: str) -> str | None:
        # The pattern also matches refs below a folder of that name.
        listed = self._git.run("for-each-ref", "--format=%(objectname) %(refname)", "--", ref).out.decode("utf-8")
        heads = (line.split(" ") for line in listed.splitlines())
        return next((oid for oid, name in heads if name == ref), None)


def _plain_id(text: bytes) -> str:
    try:
        return object_id(text.decode("ascii"))
    except (UnicodeDecodeError, Fault) as error:
        raise _NotPlain from error


def branch_ref(branch: str) -> str:
    """Return the full name of a branch. Raises: InvalidConfiguration."""
    if not is_branch_name(branch):
        raise InvalidConfiguration(f"{branch[:80]!a} is not a valid branch name.", branch=branch[:80])
    return f"refs/heads/{branch}"
