"""Registrations of linked worktrees: one for each feature, and scratch ones.

Facts about a worktree are always read from the repository's own git directory. The `.git` file inside the worktree is
only written, never read: the code that runs there can change it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from msgspec import Struct

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import Quarantine, is_held_name, own_folder, remove_folder, small_content
from aop.adapters.git.process.output import object_id, text_of
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.refs.lock_notes import drop_lock
from aop.core.errors import BranchExists, Fault

_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_FAILED = 128


class ListedCheckout(Struct, frozen=True, kw_only=True):
    """A checkout that git knows, and its branch."""

    folder: Path
    ref: str


class Registrations:
    """The registrations below `worktrees/` of the repository's git directory."""

    def __init__(self, git: GitDir, *, root: Path, common: Path) -> None:
        self._git = git
        self._root = root
        self._common = common

    def registration(self, folder: Path) -> Path | None:
        """Return git's folder for the worktree at a path, or None if none is complete."""
        likely = self.likely_registration(folder)
        return likely or next((found for found in self._registrations(folder) if _is_whole(found)), None)

    def likely_registration(self, folder: Path) -> Path | None:
        """Return git's folder for the worktree at a path, if it has its usual name."""
        likely = self._common / "worktrees" / folder.name
        return likely if _linked_from(likely) == f"{folder}/.git" and _is_whole(likely) else None

    def add_on_branch(self, folder: Path, branch: str, quarantine: Quarantine) -> Path:
        """Register a worktree without files; return git's folder for it. Raises: BranchExists if in use."""
        with self._registry_lock():
            known = self._registrations(folder)
            registration = next(filter(_is_whole, known), None) or self._adopt_moved(folder)
            if registration is None:
                for half_made in known:
                    remove_folder(half_made)
                if os.path.lexists(folder):
                    quarantine.take(folder.parent, folder.name)
                registration = self._add(folder, branch)
            return registration

    def add_detached(self, folder: Path, commit: str) -> Path:
        """Register a worktree at a commit, without files; return git's folder for it."""
        with self._registry_lock():
            return self._add(folder, "--detach", commit)

    def ensure_detached(self, folder: Path, commit: str, quarantine: Quarantine) -> Path:
        """Register a worktree at a commit without a branch, or detach the existing one."""
        registration = self.likely_registration(folder)
        if registration is None:
            with self._registry_lock():
                for half_made in self._registrations(folder):
                    remove_folder(half_made)
                if os.path.lexists(folder):
                    quarantine.take(folder.parent, folder.name)
                return self._add(folder, "--detach", commit)
        if small_content(f"{registration}/HEAD") != f"{commit}\n".encode():
            drop_lock(f"{registration}/HEAD.lock")
            self.run_in(registration, "update-ref", "--no-deref", "HEAD", commit)
        return registration

    def head_of(self, folder: Path) -> str | None:
        """Return the ref or commit of a worktree; None if there is no worktree."""
        registration = self.likely_registration(folder)
        head = None if registration is None else small_content(f"{registration}/HEAD")
        return None if head is None else os.fsdecode(head).strip().removeprefix("ref: ")

    def forget(self, folder: Path) -> None:
        """Remove the registration of a worktree, if there is one."""
        with self._registry_lock():
            for registration in self._registrations(folder):
                remove_folder(registration)
            # What a killed removal left may no longer name its worktree; its own name still does.
            remains = self._common / "worktrees" / folder.name
            if not _linked_from(remains):
                remove_folder(remains)
            with suppress(OSError):
                (self._common / "worktrees").rmdir()

    def forget_gone(self, parent: Path) -> None:
        """Remove the registrations of held folders that are gone, as a full disk can leave them."""
        for name in self._names():
            if is_held_name(name) and not (parent / name).exists():
                self.forget(parent / name)

    def restore(self, folder: Path, registration: Path, quarantine: Quarantine) -> bool:
        """Restore the folder and its `.git` file as git expects them; tell whether they were intact."""
        if folder.is_symlink() or not folder.is_dir():
            if os.path.lexists(folder):
                quarantine.take(folder.parent, folder.name)
            folder.mkdir(exist_ok=True)
        link = f"{folder}/.git"
        if small_content(link) == _link_to(registration):
            return True
        if os.path.lexists(link):
            quarantine.take(folder, ".git")
        with open(link, "xb") as file:
            file.write(_link_to(registration))
        return False

    def point_head(self, registration: Path, ref: str) -> None:
        """Put a worktree back on its branch."""
        if small_content(f"{registration}/HEAD") != os.fsencode(f"ref: {ref}\n"):
            # A killed git leaves it behind.
            drop_lock(f"{registration}/HEAD.lock")
            self.run_in(registration, "symbolic-ref", "HEAD", ref)

    def run_in(self, registration: Path, *arguments: str) -> bytes:
        """Run git as it runs inside the worktree of a registration."""
        return self._git.run(*arguments, environment={"GIT_COMMON_DIR": str(self._common)}, git_dir=registration).out

    def checkouts(self) -> Iterator[ListedCheckout]:
        """Yield every checkout that is on a branch, the user's first."""
        out = self._git.run("worktree", "list", "--porcelain", "-z").out
        for number, record in enumerate(text_of(out).split("\0\0")):
            facts = dict(line.partition(" ")[::2] for line in record.split("\0"))
            if "branch" in facts:
                folder = Path(facts["worktree"]) if number else self._root
                yield ListedCheckout(folder=folder, ref=facts["branch"])

    def _add(self, folder: Path, *what: str) -> Path:
        *options, commit = what
        arguments = ("worktree", "add", "--quiet", "--no-checkout", *options, "--", str(folder), commit)
        ran = self._git.run(*arguments, fine=(0, _FAILED))
        for pause in _PAUSES:
            if ran.code == 0 or ".lock" not in ran.err:
                break
            # A git of the user holds a lock file for a moment.
            time.sleep(pause)
            ran = self._git.run(*arguments, fine=(0, _FAILED))
        registration = self.registration(folder)
        if ran.code == 0 and registration is not None:
            return registration
        if f"'{commit}' is already" in ran.err:
            raise BranchExists(
                f"The worktree `{folder.name}` cannot be made: {self._git.clean_message(ran.err)}",
                hint="Check out another branch there, so that the feature can have this one.",
                branch=commit,
            )
        raise Fault(f"The worktree `{folder.name}` cannot be made: {self._git.clean_message(ran.err)}")

    def _registry_lock(self) -> AbstractContextManager[int]:
        return locked_file(own_folder(self._root, ".aop", "locks") / "git-worktrees")

    def _registrations(self, folder: Path) -> list[Path]:
        """Return git's folders for the worktree at a path, complete or not."""
        every = (self._common / "worktrees" / name for name in self._names())
        return [each for each in every if _linked_from(each) == f"{folder}/.git"]

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._common / "worktrees"))
        except FileNotFoundError:
            return []

    def _adopt_moved(self, folder: Path) -> Path | None:
        """Take over the registration of a repository that was moved, copied or mounted elsewhere."""
        registration = self._common / "worktrees" / folder.name
        before = _linked_from(registration)
        below_root = folder.relative_to(self._root).as_posix()
        if not before.endswith(f"/{below_root}/.git") or _is_half_made(registration):
            return None
        if small_content(before) == _link_to(registration):
            return None
        beside = registration / "gitdir.aop"
        beside.write_bytes(os.fsencode(f"{folder}/.git\n"))
        os.replace(beside, registration / "gitdir")
        return registration


def how_to_follow(place: str, branch: str, old: str, new: str) -> str:
    """Return the sentence that tells a person how to update a linked worktree."""
    return (
        f"`{branch}` is checked out at {place}, and still shows the files of `{old[:12]}`;"
        f" update it there with `{follow_command(old, new)}`."
    )


def how_to_sync(branch: str) -> str:
    """Return the sentence that tells a person how to update the main checkout."""
    return f"`{branch}` is checked out at the repository's root, and shows older files; update it with `aop sync`."


def follow_command(old: str, new: str) -> str:
    """Return the git command that brings a checkout from one commit to another."""
    # `read-tree` refuses to lose local changes. It relies on the index, which `update-index` refreshes.
    return f"git update-index -q --refresh; git read-tree -m -u {object_id(old)} {object_id(new)}"


def _linked_from(registration: Path) -> str:
    """Return the `.git` file that a registration names, or an empty text."""
    # A killed git may have left the file empty.
    named = os.fsdecode(small_content(f"{registration}/gitdir") or b"").rstrip("\n")
    return os.path.normpath(os.path.join(registration, named)) if named else ""


def _link_to(registration: Path) -> bytes:
    return os.fsencode(f"gitdir: {registration}\n")


def _is_whole(registration: Path) -> bool:
    parts = (f"{registration}/HEAD", f"{registration}/commondir")
    return all(map(os.path.isfile, parts)) and not _is_half_made(registration)


def _is_half_made(registration: Path) -> bool:
    # Git writes this while it makes a worktree; a killed git leaves it behind.
    return (small_content(f"{registration}/locked") or b"").strip() == b"initializing"
