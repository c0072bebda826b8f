"""Files of one worktree: compared by git, written and moved by AOP."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate
from pathlib import Path

from aop.adapters.files import own_folders
from aop.adapters.files.own_folders import Quarantine
from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.process.output import RawChange, raw_changes, split_names
from aop.adapters.git.process.program import ANY_CODE, CHECKOUT_SECONDS, GitDir, GitResult
from aop.core.errors import Fault, InvalidPatch
from aop.kernel.ports.git import FileContent, FileMode


class WorktreeFiles:
    """A folder whose files any program may have changed, locked, or replaced by links."""

    def __init__(self, neutral: GitDir, folder: Path) -> None:
        self._neutral = neutral
        self.folder = folder

    def git(self, *arguments: str, index: Path, stdin: bytes = b"") -> bytes:
        """Run git on the files; if that fails, unlock the folders and try once more."""
        ran = self.attempt(*arguments, index=index, stdin=stdin)
        if ran.code != 0 or ran.err:
            own_folders.grant_access(self.folder)
            ran = self.attempt(*arguments, index=index, stdin=stdin)
        if ran.code != 0 or ran.err:
            raise Fault(f"`git {arguments[0]}` ended with {ran.code}: {self._neutral.clean_message(ran.err)}")
        return ran.out

    def attempt(self, *arguments: str, index: Path, stdin: bytes = b"") -> GitResult:
        """Run git on the files, and return any result."""
        return self._neutral.run(
            *arguments, stdin=stdin, work_tree=self.folder, index=index, fine=ANY_CODE, seconds=CHECKOUT_SECONDS
        )

    def drift(self, index: Path) -> list[RawChange]:
        """Return the files that differ, or may differ, from an index."""
        out = self.git("diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=all", index=index)
        return list(raw_changes(out))

    def others(self, index: Path) -> set[str]:
        """Return the paths that are not in an index; a folder ends with a slash and is not opened."""
        return set(split_names(self.git("ls-files", "--others", "--directory", "-z", index=index)))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, and folders left empty."""
        gone = tuple(paths)
        try:
            own_folders.remove_files(self.folder, gone)
        except PermissionError:
            own_folders.grant_access(self.folder)
            own_folders.remove_files(self.folder, gone)

    def below(self, start: str) -> list[str]:
        """Return all files below one of the folders."""
        try:
            return list(own_folders.files_below(self.folder, start))
        except PermissionError:
            own_folders.grant_access(self.folder)
            return list(own_folders.files_below(self.folder, start))

    def content(self, path: str) -> FileContent | None:
        """Return a file or the target of a link, which is never followed; None if nothing is there.

        Raises: InvalidPatch for what no tree can hold as a file.
        """
        mode = 0 if self._blocked_parent(path, set()) else self._mode(path)
        if not mode:
            return None
        if stat.S_ISLNK(mode):
            return FileMode.SYMLINK, os.fsencode(os.readlink(self.folder / path))
        found = own_folders.read_file(self.folder, path) if stat.S_ISREG(mode) else None
        if found is None:
            raise InvalidPatch(f"`{path}` is neither a plain file nor a link.", path=path)
        return (FileMode.EXECUTABLE if found[0].st_mode & stat.S_IXUSR else FileMode.FILE), found[1]

    def write(self, path: str, mode: FileMode, content: bytes, *, beside: Path) -> os.stat_result:
        """Write a whole file, first to the path `beside`."""
        rights = 0o777 if mode is FileMode.EXECUTABLE else 0o666
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, rights)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return own_folders.place_file(self.folder, path, beside)

    def overwrite(self, path: str, mode: FileMode, content: bytes) -> os.stat_result | None:
        """Overwrite a plain file in place, as new files may be slow; None if its kind, rights or names differ."""
        return own_folders.overwrite_file(self.folder, path, content, executable=mode is FileMode.EXECUTABLE)

    def status_if_same(self, path: str, mode: FileMode, oid: str) -> os.stat_result | None:
        """Return the status of a plain file with this mode and content; None if it differs."""
        found = own_folders.read_file(self.folder, path)
        if found is None:
            return None
        seen, content = found
        is_same = id_of(object_bytes("blob", content), digest_size=len(oid) // 2) == oid
        return seen if is_same and bool(seen.st_mode & stat.S_IXUSR) is (mode is FileMode.EXECUTABLE) else None

    def clear_way(
        self, paths: Iterable[str], created: Mapping[str, tuple[str, str]], quarantine: Quarantine
    ) -> list[str]:
        """Move to quarantine what a write would destroy: all at new paths, folders at others. Return what was moved."""
        moved = []
        folders: set[str] = set()
        for path in paths:
            in_the_way = self._blocked_parent(path, folders) or self._blocked_name(path, created.get(path))
            if in_the_way:
                quarantine.take(self.folder, in_the_way)
                moved.append(in_the_way)
        return moved

    def set_edits_aside(
        self, blobs: Mapping[str, Collection[str]], read: Callable[[str], bytes], quarantine: Quarantine
    ) -> list[str]:
        """Move plain files with other content than the blobs of AOP to quarantine; return their paths."""
        edited = [path for path, known in sorted(blobs.items()) if self._is_edited(path, known, read)]
        for path in edited:
            quarantine.take(self.folder, path)
        return edited

    def _is_edited(self, path: str, blobs: Collection[str], read: Callable[[str], bytes]) -> bool:
        # A folder that is a link leads out of the worktree.
        if self._blocked_parent(path, set()) is not None or not stat.S_ISREG(self._mode(path)):
            return False
        if any(self._holds(path, blob) for blob in blobs):
            return False
        # A killed AOP leaves the beginning of a blob, or one blob half written over another: that holds no work.
        found, known = own_folders.read_file(self.folder, path), [read(blob) for blob in blobs]
        return found is None or not any(_is_half_written(found[1], over, by) for over in known for by in known)

    def _blocked_parent(self, path: str, folders: set[str]) -> str | None:
        """Return the first part of the path that should be a folder and is not."""
        for parent in accumulate(path.split("/")[:-1], "{}/{}".format):
            if parent not in folders:
                mode = self._mode(parent)
                if not stat.S_ISDIR(mode):
                    return parent if mode else None
                folders.add(parent)
        return None

    def _blocked_name(self, path: str, created: tuple[str, str] | None) -> str | None:
        """Return the path if writing the file would destroy something there."""
        mode = self._mode(path)
        if stat.S_ISDIR(mode):
            return None if created and created[0] == FileMode.GITLINK else path
        if not mode or created is None:
            return None
        return None if stat.S_ISREG(mode) and self._holds(path, created[1]) else path

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(self.folder / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _holds(self, path: str, oid: str) -> bool:
        """Tell whether a plain file holds the bytes of a blob."""
        digest = hashlib.new("sha1" if len(oid) == 40 else "sha256", usedforsecurity=False)
        try:
            with open(self.folder / path, "rb") as file:
                digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except PermissionError:
            return False
        return digest.hexdigest() == oid


def _is_half_written(content: bytes, over: bytes, by: bytes) -> bool:
    """Tell whether a content is the start of `by` followed by the rest of `over`."""
    pairs = enumerate(zip(content, by, strict=False))
    written = next((at for at, (one, other) in pairs if one != other), min(len(content), len(by)))
    return written == len(content) or content[written:] == over[written:]
