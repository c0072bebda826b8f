"""User checkout: the person's own files and index, brought along with the branch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import own_folder
from aop.adapters.git.checkouts.note import CheckoutNote, CheckoutNotes
from aop.adapters.git.checkouts.operations import head_ref, operation_in_progress, rebased_ref
from aop.adapters.git.process.output import bytes_of, object_id
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitDir, GitResult
from aop.adapters.git.refs.branches import Branches, branch_ref
from aop.adapters.git.refs.lock_notes import drop_lock
from aop.adapters.git.repository_objects import RepositoryObjects
from aop.adapters.git.worktrees.registrations import Registrations, follow_command, how_to_sync
from aop.core.errors import CheckoutBusy, CheckoutChanged, CheckoutNeedsFilter, CheckoutUnknown, Fault
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.core.text.counts import count, list_some
from aop.kernel.ports.git import CheckoutStep, TreeChange

if TYPE_CHECKING:
    # Only a checkout that is behind is compared.
    from aop.adapters.git.checkouts.local_changes import Side, StepExamination
    from aop.adapters.git.checkouts.settings import CheckoutSettings

_FAILED = 128
_NOT_FRESH = re.compile(r"Entry '(.*)' not uptodate")
_SHOWN_PATHS = 10
_OLDER_COMMITS = 50


class UserCheckout:
    """Implements `aop.kernel.ports.git.GitCheckout`.

    Git writes with the settings of the person, as for line endings. It starts no hook and no filter.
    """

    def __init__(
        self,
        git: GitDir,
        objects: RepositoryObjects,
        branches: Branches,
        registrations: Registrations,
        *,
        root: Path,
        git_dir: Path,
        note: Path,
        digest_size: int,
    ) -> None:
        self._git = git
        self._objects = objects
        self._branches = branches
        self._registrations = registrations
        self._root = root
        self._git_dir = git_dir
        self._digest_size = digest_size
        self._notes = CheckoutNotes(note)
        self._seen: tuple[object, Mapping[str, Side]] | None = None

    def note_move(self, branch: str, old: CommitId) -> None:
        """Note where the checkout stands, before AOP moves its branch away from a commit."""
        if head_ref(self._git_dir) == branch_ref(branch):
            self._notes.write(CheckoutNote(branch=branch, shows=self._shown(branch, old)))

    def behind(self, branch: str) -> str | None:
        """Say how to update the checkout if it is on the branch and shows older files; None if it does not."""
        head = None if self._notes.read(branch) is None else self._branches.head(branch)
        if head is None or head_ref(self._git_dir) != branch_ref(branch):
            return None
        return None if self._shown(branch, head) == head else how_to_sync(branch)

    def where(self, branch: str) -> str:
        ref = branch_ref(branch)
        here = head_ref(self._git_dir)
        if here == ref:
            return ""
        others = [each.folder.name for each in self._registrations.checkouts() if each.ref == ref]
        if others:
            return (
                f"`{branch}` is checked out in the linked worktree `{others[0]}`, and AOP updates only the repository's"
                " main checkout. The merge printed the git command for that worktree."
            )
        place = "at no branch (detached HEAD)" if here is None else f"on `{here.removeprefix('refs/heads/')}`"
        return f"`{branch}` is not checked out: the checkout is {place}. There is nothing to update."

    def check(self, branch: str, to: TreeId) -> None:
        head = self._branches.head(branch)
        if self._has_branch(branch) and head is not None:
            shown = self._objects.tree_of(self._shown(branch, head))
            self._examine(branch, shown, to)

    def follow(self, branch: str) -> CheckoutStep | None:
        head = self._branches.head(branch)
        if not self._has_branch(branch) or head is None:
            return None
        # Git inherits the lock: one that outlives a killed AOP finishes before the next step begins.
        with locked_file(own_folder(self._root, ".aop", "locks") / "checkout") as held:
            shown = self._shown(branch, head)
            if shown == head:
                self._refuse_unknown(branch, head)
                self._notes.remove()
                return None
            return self._take(branch, shown, head, held)

    def _refuse_unknown(self, branch: str, head: CommitId) -> None:
        """Refuse if the index is that of an older commit although no note says so: a person may have staged it.

        Raises: CheckoutUnknown.
        """
        new = self._objects.tree_of(head)
        staged = self._staged(new, new, ()) if self._notes.read(branch) is None else {}
        if not staged:
            return
        from aop.adapters.git.checkouts.local_changes import shows_old_tree

        listed = self._git.run("rev-list", "--first-parent", f"--max-count={_OLDER_COMMITS}", object_id(head))
        older = [CommitId(ObjectId(line)) for line in listed.out.decode("ascii").split()[1:]]
        steps = {commit: self._objects.changes(self._objects.tree_of(commit), new) for commit in older}
        shown = [commit for commit, changes in steps.items() if shows_old_tree(changes, staged)]
        if shown:
            old = max(shown, key=lambda commit: len(steps[commit]))
            named = list_some([f"`{change.path}`" for change in steps[old]], _SHOWN_PATHS)
            raise CheckoutUnknown(
                f"The index of the checkout shows {named} as in {old[:12]}, an older commit of `{branch}`, and AOP's"
                " note of where the checkout stood is missing.",
                hint=f"If you did not stage that yourself, update the checkout: `{follow_command(old, head)}`.",
                branch=branch,
                shows=old,
                paths=[change.path for change in steps[old]],
            )

    def _take(self, branch: str, old: CommitId, new: CommitId, held: int) -> CheckoutStep:
        note = self._notes.read(branch)
        if note is not None and note.begun:
            drop_lock(f"{self._git_dir}/index.lock")
        try:
            changes, found = self._examine(branch, self._objects.tree_of(old), self._objects.tree_of(new))
        except CheckoutNeedsFilter as refusal:
            refusal.next_action = f"Update it yourself: `{follow_command(old, new)}`."
            raise
        self._notes.write(CheckoutNote(branch=branch, shows=old, begun=True))
        for path in found.emptied:
            os.unlink(self._root / path)
        self._adopt(found.arrived)
        self._read_trees(old, new, held)
        self._notes.remove()
        return CheckoutStep(old=old, new=new, files=len(changes))

    def _shown(self, branch: str, head: CommitId) -> CommitId:
        """Return the commit whose files the checkout shows, where its branch is at `head`."""
        note = self._notes.read(branch)
        if note is None or note.shows == head:
            return head
        from aop.adapters.git.checkouts.local_changes import is_behind

        old, new = self._objects.tree_of(note.shows), self._objects.tree_of(head)
        changes = self._objects.changes(old, new)
        return note.shows if is_behind(changes, self._staged(old, new, changes)) else head

    def _staged(self, old: TreeId, new: TreeId, changes: Sequence[TreeChange]) -> Mapping[str, Side]:
        """Return where the index differs from the new tree of a step, as it is or as it was read last."""
        from aop.adapters.git.checkouts.local_changes import index_tree, old_sides, staged_sides

        path = self._git_dir / "index"
        try:
            index = os.stat(path)
        except FileNotFoundError:
            return staged_sides(self._git, new)
        key = (new, index.st_ino, index.st_mtime_ns, index.st_size)
        if self._seen is None or self._seen[0] != key:
            is_old = index_tree(path, digest_size=self._digest_size) == old
            self._seen = (key, old_sides(changes) if is_old else staged_sides(self._git, new))
        return self._seen[1]

    def _has_branch(self, branch: str) -> bool:
        """Tell whether the checkout is on a branch. Raises: CheckoutBusy if git is in the middle of something."""
        is_here = head_ref(self._git_dir) == branch_ref(branch)
        operation = operation_in_progress(self._git_dir)
        if operation is not None and (is_here or rebased_ref(self._git_dir) == branch_ref(branch)):
            raise CheckoutBusy(
                f"A {operation.name} of git is in progress in the checkout of `{branch}`.",
                hint=f"End it with {operation.ends_with}, then repeat the command.",
                operation=operation.name,
            )
        return is_here

    def _examine(self, branch: str, old: TreeId, new: TreeId) -> tuple[Sequence[TreeChange], StepExamination]:
        """Return the paths of a step and what is there. Raises: CheckoutChanged, CheckoutNeedsFilter."""
        from aop.adapters.git.checkouts.local_changes import LocalChanges
        from aop.adapters.git.checkouts.settings import filtered_paths

        changes = self._objects.changes(old, new)
        written = [change.path for change in changes if change.new is not None]
        filtered = filtered_paths(self._git, written, self._settings)
        if filtered:
            path, name = filtered[0]
            raise CheckoutNeedsFilter(
                f"`{path}` is written by the filter `{name}` of git, a program that AOP does not start.",
                paths=[path for path, _ in filtered],
                filter=name,
            )
        note = self._notes.read(branch)
        local = LocalChanges(self._git, self._root, self._settings, digest_size=self._digest_size)
        staged = self._staged(old, new, changes)
        found = local.examine(changes, staged, after_crash=note is not None and note.begun)
        if found.blocking:
            raise changes_in_the_way(found.blocking)
        return changes, found

    def _adopt(self, arrived: Sequence[TreeChange]) -> None:
        """Put files into the index that a killed step has written already."""
        entries = [change.new for change in arrived if change.new is not None]
        if entries:
            lines = b"".join(bytes_of(f"{entry.mode} {entry.oid}\t{entry.path}") + b"\0" for entry in entries)
            self._write("update-index", "--add", "--replace", "-z", "--index-info", stdin=lines)

    def _read_trees(self, old: CommitId, new: CommitId, held: int) -> None:
        step = ("read-tree", "-m", "-u", object_id(old), object_id(new))
        ran = self._write(*step, held=held, fine=(0, _FAILED))
        if ran.code and _NOT_FRESH.search(ran.err):
            # The index may only hold old times of files that are as they were.
            self._write("update-index", "-q", "--refresh", fine=(0, 1))
            ran = self._write(*step, held=held, fine=(0, _FAILED))
        if ran.code:
            named = tuple(_NOT_FRESH.findall(ran.err))
            if named:
                raise changes_in_the_way(named)
            raise Fault(f"The checkout cannot be updated: {self._git.clean_message(ran.err)}")

    def _write(
        self, *arguments: str, stdin: bytes = b"", held: int | None = None, fine: tuple[int, ...] = (0,)
    ) -> GitResult:
        from aop.adapters.git.checkouts.settings import without_filters

        ran = self._git.run(
            *without_filters(self._settings),
            *arguments,
            stdin=stdin,
            fine=(*fine, _FAILED),
            seconds=CHECKOUT_SECONDS,
            holding=() if held is None else (held,),
        )
        if ran.code == _FAILED and "index.lock" in ran.err:
            raise CheckoutBusy(
                "Another git process is writing the index of the checkout.",
                hint="Repeat the command when it has ended; if none runs, remove `.git/index.lock`.",
                operation="index.lock",
            )
        if ran.code not in fine:
            raise Fault(f"The checkout cannot be updated: {self._git.clean_message(ran.err)}")
        return ran

    @cached_property
    def _settings(self) -> CheckoutSettings:
        from aop.adapters.git.checkouts.settings import checkout_settings

        return checkout_settings(self._git)


def changes_in_the_way(paths: Sequence[str]) -> CheckoutChanged:
    """Return the refusal that names files with local changes."""
    named = list_some([f"`{path}`" for path in paths], _SHOWN_PATHS)
    verb = "has" if len(paths) == 1 else "have"
    return CheckoutChanged(
        f"{count(len(paths), 'file')} of the checkout {verb} local changes that would be lost: {named}.",
        paths=list(paths),
    )
