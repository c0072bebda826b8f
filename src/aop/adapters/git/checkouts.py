"""Makes the files of one worktree be a tree, and tells how they differ from one."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aop.adapters.git.command import ANY_CODE, CHECKOUT_SECONDS, GitDir, Ran
from aop.adapters.git.folders import Quarantine, files_below, grant_access, held_folder, remove_files, remove_folder
from aop.adapters.git.records import RawChange, joined_names, object_id, raw_changes, split_names
from aop.core.errors import Fault
from aop.core.ids import TreeId
from aop.kernel.ports import FileMode

_UNREADABLE_INDEX = 128
_WITH_PATTERNS = {"GIT_LITERAL_PATHSPECS": "0"}


class Checkout:
    """A folder with files, and the index that says what they were when they were last written.

    The index is only ever replaced as a whole, so an `index.lock` that a killed git left is in nobody's way.
    """

    def __init__(self, neutral: GitDir, *, folder: Path, index: Path, tmp: Path) -> None:
        self._neutral = neutral
        self._folder = folder
        self._index = index
        self._tmp = tmp

    def show(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        """Make the tracked files be exactly this tree; return what had to be moved to quarantine."""
        with held_folder(self._tmp) as private:
            index, differing = self._private_index(private, tree)
            created = {change.path: change for change in differing if change.status == "D"}
            self._remove(change.path for change in differing if change.status == "A")
            # A submodule's folder is never looked into; it only has to be there.
            folders = {path for path, change in created.items() if change.old_mode == FileMode.GITLINK}
            outdated = sorted({change.path for change in self._drift(index)} | folders)
            moved = self._clear_way(outdated, created, quarantine)
            if outdated:
                self._on_disk("checkout-index", "-f", "-u", "-z", "--stdin", stdin=joined_names(outdated), index=index)
            self._install(index)
            return moved

    def compare(self, tree: TreeId) -> tuple[list[RawChange], tuple[str, ...]]:
        """Return how the files differ from the tree, and the files that it neither knows nor ignores."""
        with held_folder(self._tmp) as private:
            index, _ = self._private_index(private, tree)
            # What cannot be refreshed counts as different.
            self._attempt(("update-index", "-q", "--refresh", "--ignore-submodules"), index)
            return self._drift(index), self._strays(index, private)

    def clear_strays(self, tree: TreeId, quarantine: Quarantine) -> tuple[str, ...]:
        """Move the files that the tree neither knows nor ignores to quarantine; return their paths."""
        strays = self._strays_beside(tree)
        for path in strays:
            quarantine.take(self._folder, path.rstrip("/"))
        # Nothing is there any more but the folders that are empty now.
        remove_files(self._folder, strays)
        return strays

    def discard_strays(self, tree: TreeId) -> tuple[str, ...]:
        """Remove the files that the tree neither knows nor ignores; return their paths."""
        strays = self._strays_beside(tree)
        for path in strays:
            # A repository inside the worktree is one stray, and ends with a slash.
            if path.endswith("/"):
                remove_folder(self._folder / path)
        self._remove(strays)
        return strays

    def _private_index(self, private: Path, tree: TreeId) -> tuple[Path, list[RawChange]]:
        """Copy the index and make the copy be the tree; return it, and what was not (`D`: missing, `A`: too much)."""
        index = private / "index"
        with suppress(FileNotFoundError):
            # The copy keeps the time of the original: by it git knows which files it must read to be sure.
            shutil.copy2(self._index, index)
        arguments = ("diff-index", "--cached", "-z", "--raw", "--no-renames", "--no-abbrev", object_id(tree), "--")
        ran = self._neutral.run(*arguments, index=index, fine=(0, _UNREADABLE_INDEX))
        if ran.code == _UNREADABLE_INDEX:
            # Without an index the files on disk are compared with the tree byte by byte.
            index.unlink(missing_ok=True)
            ran = self._neutral.run(*arguments, index=index)
        if ran.out:
            # What the two have in common keeps what is known of the files on disk.
            self._neutral.run("read-tree", "-i", "-m", tree, index=index)
        return index, list(raw_changes(ran.out))

    def _install(self, index: Path) -> None:
        beside = self._index.with_name("index.aop")
        shutil.copy2(index, beside)
        os.replace(beside, self._index)

    def _drift(self, index: Path) -> list[RawChange]:
        out = self._on_disk("diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=all", index=index)
        return list(raw_changes(out))

    def _remove(self, paths: Iterable[str]) -> None:
        gone = tuple(paths)
        try:
            remove_files(self._folder, gone)
        except PermissionError:
            grant_access(self._folder)
            remove_files(self._folder, gone)

    def _clear_way(
        self, paths: Iterable[str], created: Mapping[str, RawChange], quarantine: Quarantine
    ) -> tuple[str, ...]:
        moved = []
        folders: set[str] = set()
        for path in paths:
            in_the_way = self._blocked_parent(path, folders) or self._blocked_name(path, created.get(path))
            if in_the_way:
                quarantine.take(self._folder, in_the_way)
                moved.append(in_the_way)
        return tuple(moved)

    def _blocked_parent(self, path: str, folders: set[str]) -> str | None:
        """Return the first part of the path that should be a folder and is something else."""
        end = path.find("/")
        while end >= 0:
            parent = path[:end]
            if parent not in folders:
                mode = self._mode(parent)
                if not stat.S_ISDIR(mode):
                    return parent if mode else None
                folders.add(parent)
            end = path.find("/", end + 1)
        return None

    def _blocked_name(self, path: str, created: RawChange | None) -> str | None:
        """Return the path if something is there that would be lost by writing the file."""
        mode = self._mode(path)
        if stat.S_ISDIR(mode):
            return None if created and created.old_mode == FileMode.GITLINK else path
        if not mode or created is None:
            return None
        return None if stat.S_ISREG(mode) and self._holds(path, created.old_oid) else path

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(self._folder / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _holds(self, path: str, oid: str) -> bool:
        """Tell whether a plain file holds the bytes of a blob."""
        digest = hashlib.new("sha1" if len(oid) == 40 else "sha256", usedforsecurity=False)
        try:
            with open(self._folder / path, "rb") as file:
                digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except PermissionError:
            return False
        return digest.hexdigest() == oid

    def _strays_beside(self, tree: TreeId) -> tuple[str, ...]:
        with held_folder(self._tmp) as private:
            index, _ = self._private_index(private, tree)
            return self._strays(index, private)

    def _strays(self, index: Path, private: Path) -> tuple[str, ...]:
        """Return the files that are neither in the index nor ignored by the `.gitignore` files that are in it.

        Git itself goes by the `.gitignore` files on disk, and a program could have put one there to hide behind.
        """
        untracked = ("ls-files", "--others", "--exclude-standard", "-z")
        shown = split_names(self._on_disk(*untracked, index=index))
        hidden = split_names(self._on_disk(*untracked, "--ignored", "--directory", index=index))
        suspects = self._not_ignored({*shown, *hidden}, index, private)
        folders = {path for path in suspects.intersection(hidden) if path.endswith("/")}
        inside = {path for folder in folders for path in files_below(self._folder, folder)}
        return tuple(sorted((suspects - folders) | self._not_ignored(inside, index, private)))

    def _not_ignored(self, paths: set[str], index: Path, private: Path) -> set[str]:
        if not paths:
            return set()
        # The one command that takes no literal names: `./` before each keeps it from reading a `:` as more than a name.
        ran = self._neutral.run(
            *("check-ignore", "--no-index", "-z", "--stdin"),
            stdin=joined_names(f"./{path}" for path in sorted(paths)),
            work_tree=self._ignore_files(index, private),
            environment=_WITH_PATTERNS,
            fine=(0, 1),
        )
        return paths.difference(path.removeprefix("./") for path in split_names(ran.out))

    def _ignore_files(self, index: Path, private: Path) -> Path:
        """Return a folder with nothing but the `.gitignore` files of the index."""
        rules = private / "ignores"
        if not rules.exists():
            rules.mkdir()
            pattern = ":(glob)**/.gitignore"
            listed = self._neutral.run("ls-files", "-z", "--", pattern, index=index, environment=_WITH_PATTERNS).out
            self._neutral.run("checkout-index", f"--prefix={rules}/", "-z", "--stdin", stdin=listed, index=index)
        return rules

    def _on_disk(self, *arguments: str, index: Path, stdin: bytes = b"") -> bytes:
        """Run git on the files; where a program has locked folders up, open them and try once more."""
        ran = self._attempt(arguments, index, stdin)
        if ran.code != 0 or ran.err:
            grant_access(self._folder)
            ran = self._attempt(arguments, index, stdin)
        if ran.code != 0 or ran.err:
            raise Fault(f"`git {arguments[0]}` ended with {ran.code}: {self._neutral.cleaned(ran.err)}")
        return ran.out

    def _attempt(self, arguments: Sequence[str], index: Path, stdin: bytes = b"") -> Ran:
        return self._neutral.run(
            *arguments, stdin=stdin, work_tree=self._folder, index=index, fine=ANY_CODE, seconds=CHECKOUT_SECONDS
        )
