"""Watch of clean worktrees by inotify: only what changed since is looked at.

Each file is watched itself, not only its folder, so that a change through another name of it counts too. If anything is
uncertain, or a notice may have been lost, the whole worktree is looked at.
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
from aop.adapters.git.worktrees.stray_scan import folders_of
from aop.adapters.machine import inotify
from aop.adapters.machine.inotify import Inotify
from aop.core.ids import TreeId
from aop.kernel.ports.git import FileMode

_OF_A_FILE = inotify.MODIFIED | inotify.ATTRIBUTES | inotify.CLOSED_AFTER_WRITING | inotify.NOT_THROUGH_A_LINK
_OF_A_FOLDER = (
    *(inotify.CREATED, inotify.DELETED, inotify.MOVED_AWAY, inotify.MOVED_HERE, inotify.ATTRIBUTES),
    *(inotify.SELF_DELETED, inotify.SELF_MOVED, inotify.ONLY_A_FOLDER, inotify.NOT_THROUGH_A_LINK),
)
# Each watched file takes a kilobyte of the kernel's memory.
_MOST_FILES = 50_000
_MOST_FOLDERS = 4
# With more changes git is faster, because it compares the times of files.
_MOST_CHANGES = 500
# Starting a watch costs more than a look, so the looks of one run, before it and after each step, start none.
_LOOKS_BEFORE = 4

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
        """Return what `look` returns: the untracked paths beside a tree, or None if the tree may differ."""
        with self._locks.setdefault(folder, threading.Lock()):
            watched = self._watched.get(folder)
            if watched is not None:
                others = watched.others(tree, read)
                if others is not None:
                    return others
                self._forget(folder)
            started = self._start_watch(folder, tracked)
            others = look()
            self._looks[folder] = 0 if others is None else self._looks.get(folder, 0) + 1
            if started is not None and others is not None:
                started.settle(tree, others)
                self._keep(folder, started)
            elif started is not None:
                started.close()
            return others

    def close(self) -> None:
        """End all watches."""
        for folder in list(self._watched):
            self._forget(folder)

    def _start_watch(self, folder: Path, tracked: Callable[[], list[str]]) -> WatchedFolder | None:
        if self._looks.get(folder, 0) < _LOOKS_BEFORE:
            return None
        paths = tracked()
        return None if len(paths) > _MOST_FILES else WatchedFolder.start(folder, paths)

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
    """One watched worktree and its last known state."""

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
    def start(cls, folder: Path, paths: Iterable[str]) -> WatchedFolder | None:
        """Start to watch a folder and its tracked files; None if that is not possible."""
        try:
            started = cls(folder, Inotify())
        except OSError:
            return None
        try:
            if started._queue.sees_all_of(started._root):
                started._watch_all([os.fsencode(path) for path in paths])
                return started
        except OSError:
            # There are too many files, or one is missing.
            pass
        started.close()
        return None

    def settle(self, tree: TreeId, others: Others) -> None:
        """Store what was found after the watch began."""
        self._tree, self._others = tree, others

    def others(self, tree: TreeId, read: ReadTree) -> Others | None:
        """Return the untracked paths beside a tree; None if the tree may differ."""
        try:
            changed = self._changed_paths()
            if changed is None or self._tree is None or self._identity != _identity_of(self._folder):
                return None
            changed |= {path for path, _, _ in differences(read, self._tree, tree)}
            if len(changed) > _MOST_CHANGES or not all(
                self._matches(path, side_at(read, tree, path)) for path in changed
            ):
                return None
        except OSError:
            # A file is missing, or may not be opened.
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
            # Two names of one file: a notice would name only one of them.
            raise OSError

    def _watch_file(self, path: bytes) -> None:
        self._files[self._queue.watch(self._root + path, _OF_A_FILE)] = path

    def _changed_paths(self) -> set[bytes] | None:
        """Return the paths with changes since the last call; None if any path may have changed."""
        changed = set()
        for number, kinds, name in self._queue.notices():
            if number in self._files:
                changed.add(self._files[number])
                if kinds & inotify.NO_LONGER_WATCHED:
                    del self._files[number]
            elif name and number in self._folders:
                changed.add(self._folders[number] + name)
            elif not kinds & inotify.NO_LONGER_WATCHED or number in self._folders:
                # Notices were lost, or a folder itself changed.
                return None
        return changed - {b".git"}

    def _matches(self, path: bytes, side: Side | None) -> bool:
        """Tell whether a path matches the tree; a path that the tree does not have is noted as untracked."""
        full = self._root + path
        if path[: path.rfind(b"/") + 1] not in self._names:
            return False
        if side is None:
            return self._note_untracked(path, full)
        mode, oid = side
        if mode not in (FileMode.FILE, FileMode.EXECUTABLE, FileMode.SYMLINK):
            return False
        # Watch first, then look, so that a change in between is noticed.
        self._watch_file(path)
        found = os.lstat(full)
        if stat.S_IFMT(found.st_mode) != (stat.S_IFLNK if mode is FileMode.SYMLINK else stat.S_IFREG):
            return False
        if mode is not FileMode.SYMLINK and bool(found.st_mode & stat.S_IXUSR) != (mode is FileMode.EXECUTABLE):
            return False
        content = os.readlink(full) if mode is FileMode.SYMLINK else Path(os.fsdecode(full)).read_bytes()
        self._others -= _names_of(path)
        return id_of(object_bytes("blob", content), digest_size=len(oid) // 2) == oid

    def _note_untracked(self, path: bytes, full: bytes) -> bool:
        self._others -= _names_of(path)
        if os.path.lexists(full):
            is_folder = stat.S_ISDIR(os.lstat(full).st_mode)
            self._others.add(text_of(path + b"/" if is_folder else path))
        # A watched folder that the tree no longer has needs a whole look.
        return path + b"/" not in self._names


def _names_of(path: bytes) -> set[str]:
    return {text_of(path), text_of(path + b"/")}


def _identity_of(folder: Path) -> tuple[int, int]:
    found = os.lstat(folder)
    return found.st_dev, found.st_ino
