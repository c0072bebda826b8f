"""Watches worktrees that were found to be what they should be, so that only what changed since is looked at again.

Each file is watched by itself, not only by its folder: a change that comes through another name of it counts too. What
is not certain to be right is looked at as a whole, and so is everything if a notice may have been lost.
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.objects.trees import ReadTree, Side, differences, side_at
from aop.adapters.git.process.output import text_of
from aop.adapters.git.worktrees.scan import folders_of
from aop.adapters.machine import inotify
from aop.adapters.machine.inotify import Inotify
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode

_OF_A_FILE = inotify.MODIFIED | inotify.ATTRIBUTES | inotify.CLOSED_AFTER_WRITING | inotify.NOT_THROUGH_A_LINK
_OF_A_FOLDER = (
    *(inotify.CREATED, inotify.DELETED, inotify.MOVED_AWAY, inotify.MOVED_HERE, inotify.ATTRIBUTES),
    *(inotify.SELF_DELETED, inotify.SELF_MOVED, inotify.ONLY_A_FOLDER, inotify.NOT_THROUGH_A_LINK),
)
# What is watched stays in the kernel's memory, a kilobyte for each file.
_MOST_FILES = 50_000
_MOST_FOLDERS = 4
# From here on git is faster, which goes by the times of the files.
_MOST_CHANGES = 500
# To begin to watch costs more than to look, so it is not done for somebody who looks before one run and after it.
_LOOKS_BEFORE = 2

Others = set[str]


class Watches:
    """The worktrees that this process watches."""

    def __init__(self) -> None:
        self._locks: dict[Path, threading.Lock] = {}
        self._looks: dict[Path, int] = {}
        self._watched: dict[Path, WatchedFolder] = {}

    def others(
        self,
        folder: Path,
        tree: TreeId,
        *,
        read: ReadTree,
        look: Callable[[], Others | None],
        tracked: Callable[[], list[str]],
    ) -> Others | None:
        """Return what `look` returns: what lies in a folder beside a tree, or None if the tree may not be there."""
        with self._locks.setdefault(folder, threading.Lock()):
            watched = self._watched.get(folder)
            if watched is not None:
                others = watched.others(tree, read)
                if others is not None:
                    return others
                self._forget(folder)
            begun = self._begun(folder, tracked)
            others = look()
            self._looks[folder] = 0 if others is None else self._looks.get(folder, 0) + 1
            if begun is not None and others is not None:
                begun.settle(tree, others)
                self._keep(folder, begun)
            elif begun is not None:
                begun.close()
            return others

    def close(self) -> None:
        """Watch nothing any more."""
        for folder in list(self._watched):
            self._forget(folder)

    def _begun(self, folder: Path, tracked: Callable[[], list[str]]) -> WatchedFolder | None:
        if self._looks.get(folder, 0) < _LOOKS_BEFORE:
            return None
        paths = tracked()
        return None if len(paths) > _MOST_FILES else WatchedFolder.begun(folder, paths)

    def _keep(self, folder: Path, watched: WatchedFolder) -> None:
        for oldest in list(self._watched)[: 1 - _MOST_FOLDERS]:
            self._forget(oldest)
        self._watched[folder] = watched

    def _forget(self, folder: Path) -> None:
        self._looks.pop(folder, None)
        watched = self._watched.pop(folder, None)
        if watched is not None:
            watched.close()


class WatchedFolder:
    """One worktree, and what is known of it."""

    def __init__(self, folder: Path, queue: Inotify) -> None:
        self._folder = folder
        self._queue = queue
        self._root = os.fsencode(folder) + b"/"
        self._identity = _identity_of(folder)
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, bytes] = {}
        self._names: frozenset[bytes] = frozenset()
        self._tree: TreeId | None = None
        self._others: Others = set()
        self.close = weakref.finalize(self, queue.close)

    @classmethod
    def begun(cls, folder: Path, paths: Iterable[str]) -> WatchedFolder | None:
        """Begin to watch a folder with all its tracked files; None if that cannot be done."""
        try:
            begun = cls(folder, Inotify())
        except OSError:
            return None
        try:
            if begun._queue.sees_all_of(begun._root):
                begun._watch_all([os.fsencode(path) for path in paths])
                return begun
        except OSError:
            # There are too many to watch, or one is not there.
            pass
        begun.close()
        return None

    def settle(self, tree: TreeId, others: Others) -> None:
        """Take note of what was found since the watch began."""
        self._tree, self._others = tree, others

    def others(self, tree: TreeId, read: ReadTree) -> Others | None:
        """Return what lies beside a tree that is there for certain; None if that cannot be told."""
        try:
            changed = self._changed()
            if changed is None or self._tree is None or self._identity != _identity_of(self._folder):
                return None
            changed |= {path for path, _, _ in differences(read, self._tree, tree)}
            if len(changed) > _MOST_CHANGES or not all(
                self._is_right(path, side_at(read, tree, path)) for path in changed
            ):
                return None
        except OSError:
            # A file that is not there, or may not be opened.
            return None
        self._tree = tree
        return set(self._others)

    def _watch_all(self, paths: list[bytes]) -> None:
        kinds = sum(_OF_A_FOLDER)
        for folder in (b"", *(os.fsencode(folder) + b"/" for folder in set(folders_of(map(os.fsdecode, paths))))):
            self._folders[self._queue.watch(self._root + folder, kinds)] = folder
        self._names = frozenset(self._folders.values())
        for path in paths:
            self._watch_file(path)
        if len(self._files) != len(paths):
            # Two names of one file: a notice would be about one of them.
            raise OSError

    def _watch_file(self, path: bytes) -> None:
        self._files[self._queue.watch(self._root + path, _OF_A_FILE)] = path

    def _changed(self) -> set[bytes] | None:
        """Return the paths that something happened to since this was asked last; None if it may be any."""
        changed = set()
        for number, kinds, name in self._queue.notices():
            if number in self._files:
                changed.add(self._files[number])
                if kinds & inotify.NO_LONGER_WATCHED:
                    del self._files[number]
            elif name and number in self._folders:
                changed.add(self._folders[number] + name)
            elif not kinds & inotify.NO_LONGER_WATCHED or number in self._folders:
                # Notices were lost, or something happened to a folder itself.
                return None
        return changed - {b".git"}

    def _is_right(self, path: bytes, side: Side | None) -> bool:
        """Tell whether a path is as the tree has it; what the tree does not have is noted among the others."""
        full = self._root + path
        if path[: path.rfind(b"/") + 1] not in self._names:
            return False
        if side is None:
            return self._noted(path, full)
        mode, oid = side
        if mode not in (FileMode.FILE, FileMode.EXECUTABLE, FileMode.SYMLINK):
            return False
        # First the watch, then the look: what happens in between is noticed.
        self._watch_file(path)
        found = os.lstat(full)
        if stat.S_IFMT(found.st_mode) != (stat.S_IFLNK if mode is FileMode.SYMLINK else stat.S_IFREG):
            return False
        if mode is not FileMode.SYMLINK and bool(found.st_mode & stat.S_IXUSR) != (mode is FileMode.EXECUTABLE):
            return False
        content = os.readlink(full) if mode is FileMode.SYMLINK else Path(os.fsdecode(full)).read_bytes()
        self._others -= _names_of(path)
        return id_of(object_bytes("blob", content), digest_size=len(oid) // 2) == oid

    def _noted(self, path: bytes, full: bytes) -> bool:
        self._others -= _names_of(path)
        if os.path.lexists(full):
            is_folder = stat.S_ISDIR(os.lstat(full).st_mode)
            self._others.add(text_of(path + b"/" if is_folder else path))
        # A folder that is watched and in the tree no more is another one's to judge.
        return path + b"/" not in self._names


def _names_of(path: bytes) -> set[str]:
    return {text_of(path), text_of(path + b"/")}


def _identity_of(folder: Path) -> tuple[int, int]:
    found = os.lstat(folder)
    return found.st_dev, found.st_ino
