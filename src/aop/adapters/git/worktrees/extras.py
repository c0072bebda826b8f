"""Extras: untracked files of the checkout, copied or linked into worktrees."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from aop.adapters.files.own_folders import (
    Quarantine,
    grant_access,
    held_folder,
    open_parent,
    own_folder,
    place_file,
    remove_files,
)
from aop.adapters.git.process.output import split_names
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.worktrees.registrations import Registrations
from aop.core.errors import WorktreeSetupFailed
from aop.kernel.config.worktrees import OWN

PLACED = "aop-placed.json"
"""The note in git's folder of a worktree that lists what AOP placed, or is about to place."""
NAMED_BY = "`worktree.copy` and `.worktreeinclude`"
MOST_FILES = 1000
MOST_BYTES = 64 * 1024 * 1024
_WITH_PATTERNS = {"GIT_LITERAL_PATHSPECS": "0"}
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CheckoutExtras:
    """Implements `aop.kernel.ports.worktree_extras.ExtrasSource`."""

    def __init__(self, git: GitDir, *, root: Path, common: Path) -> None:
        self._git = git
        self._root = root
        self._worktrees = Registrations(git, root=root, common=common)

    def untracked(self, patterns: Sequence[str]) -> tuple[str, ...]:
        if not patterns:
            return ()
        words = [f":(glob){pattern}" for pattern in patterns]
        return self._listed("--", *words)

    def included(self, patterns: bytes) -> tuple[str, ...]:
        with held_folder(own_folder(self._root, ".aop", "tmp")) as beside:
            (beside / "patterns").write_bytes(patterns)
            return self._listed("--ignored", f"--exclude-from={beside / 'patterns'}")

    def _listed(self, *words: str) -> tuple[str, ...]:
        listed = self._git.run("ls-files", "--others", "-z", *words, environment=_WITH_PATTERNS).out
        # A name that ends with a slash is a nested repository.
        found = {path for path in split_names(listed) if path.split("/")[0] not in OWN and not path.endswith("/")}
        if len(found) > MOST_FILES:
            raise WorktreeSetupFailed(f"{NAMED_BY} name {len(found)} files; {MOST_FILES} may be copied.")
        return tuple(sorted(found))

    def place(self, folder: Path, *, copies: Sequence[str], links: Sequence[str]) -> tuple[str, ...]:
        registration = self._worktrees.registration(folder)
        if registration is None:
            return ()
        before = read_placed_paths(registration / PLACED)
        targets = {path: target for path in links if (target := self._target(path)) is not None}
        self._check_size(copies)
        # The note comes first, so that files left by a killed process are known to be AOP's.
        self._note(registration, before.union(copies, targets))
        remove_files(folder, sorted(before.difference(copies, targets)))
        for path in copies:
            self._copy(folder, path)
        for path, target in targets.items():
            self._link(folder, path, target, is_own=path in before)
        self._note(registration, frozenset(copies).union(targets))
        return tuple(targets.values())

    def identity(self, folder: Path) -> str:
        found = os.lstat(folder / ".git")
        return f"{found.st_ino}-{found.st_mtime_ns}"

    def marks(self, folder: Path, paths: Sequence[str], *, whole: bool) -> dict[str, str]:
        found = {}
        for path in (each.rstrip("/") for each in paths):
            with suppress(FileNotFoundError, NotADirectoryError):
                found[path] = _mark(os.lstat(folder / path))
                for here, folders, files in os.walk(folder / path) if whole else ():
                    inside = (os.path.join(here, name) for name in (*folders, *files))
                    found |= {os.path.relpath(each, folder): _mark(os.lstat(each)) for each in inside}
        return found

    def is_free(self, port: int) -> bool:
        # Few commands need it.
        import socket

        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True

    def _target(self, path: str) -> str | None:
        """Return the target of a link to the checkout; None if absent or tracked. Raises: WorktreeSetupFailed."""
        place, root = self._root / path, os.path.realpath(self._root)
        if not place.exists() or self._git.run("ls-files", "-z", "--", path).out:
            return None
        real = os.path.realpath(place)
        if real != os.path.join(root, path):
            raise WorktreeSetupFailed(
                f"`{path}` of `worktree.link` lies behind a link, and links are not followed.", path=path
            )
        return real

    def _check_size(self, copies: Sequence[str]) -> None:
        total = sum((self._root / path).lstat().st_size for path in copies)
        if total > MOST_BYTES:
            raise WorktreeSetupFailed(
                f"{NAMED_BY} name {total} bytes; {MOST_BYTES} may be copied.",
                bytes=total,
                most=MOST_BYTES,
            )

    def _copy(self, folder: Path, path: str) -> None:
        """Copy a plain file into a folder; a link, or a file that vanishes meanwhile, is skipped."""
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            source = self._root / path
            if os.path.realpath(source.parent) != os.path.join(os.path.realpath(self._root), *path.split("/")[:-1]):
                return
            mode = source.lstat().st_mode
            if not stat.S_ISREG(mode):
                return
            content = _read(source)
            if _is_same_file(folder / path, content, mode):
                return
            with held_folder(own_folder(self._root, ".aop", "tmp")) as beside:
                made = beside / "made"
                made.touch(mode=0o600)
                made.write_bytes(content)
                made.chmod(stat.S_IMODE(mode) & 0o777)
                _place_made(folder, path, made)

    def _link(self, folder: Path, path: str, target: str, *, is_own: bool) -> None:
        """Make a link in a folder; what a step has put in the place of AOP's own is removed."""
        place = folder / path
        if place.is_symlink():
            if os.readlink(place) == target:
                return
        elif os.path.lexists(place):
            # What git ignores outlives a run; the next one would take these programs for the linked ones.
            self._clear(folder, path, is_own=is_own)
        with held_folder(own_folder(self._root, ".aop", "tmp")) as beside:
            (beside / "made").symlink_to(target)
            _place_made(folder, path, beside / "made")

    def _clear(self, folder: Path, path: str, *, is_own: bool) -> None:
        """Remove what is in a link's place if AOP's own link was there before, else move it to quarantine."""
        if (folder / path).is_dir():
            # A folder without the right to write cannot be moved.
            grant_access(folder / path)
        if not is_own:
            Quarantine(self._root, folder.name).take(folder, path)
            return
        with held_folder(own_folder(self._root, ".aop", "tmp")) as beside, open_parent(folder, path) as (parent, name):
            os.rename(name, beside / "old", src_dir_fd=parent)

    def _note(self, registration: Path, paths: frozenset[str]) -> None:
        if paths == read_placed_paths(registration / PLACED):
            return
        beside = registration / f"{PLACED}.new"
        beside.write_bytes(msgspec.json.encode(sorted(paths)))
        os.replace(beside, registration / PLACED)


def read_placed_paths(note: Path) -> frozenset[str]:
    """Return the paths that AOP has placed in a worktree beside its tree."""
    try:
        return msgspec.json.decode(note.read_bytes(), type=frozenset[str])
    except (FileNotFoundError, msgspec.MsgspecError):
        return frozenset()


def _place_made(folder: Path, path: str, made: Path) -> None:
    try:
        place_file(folder, path, made)
    except OSError as error:
        raise _cannot_place(folder, path, error) from error


def _cannot_place(folder: Path, path: str, error: OSError) -> WorktreeSetupFailed:
    """Return a refusal that names what is in the way: a folder in the file's place, or a file above it."""
    above = ["/".join(path.split("/")[:length]) for length in range(1, path.count("/") + 1)]
    blocked = next((each for each in above if not _is_real_folder(folder / each)), path)
    if not os.path.lexists(folder / blocked):
        return WorktreeSetupFailed(f"`{path}` cannot be put into a worktree: {error.strerror}.", path=path)
    kind = "folder" if _is_real_folder(folder / blocked) else "file"
    return WorktreeSetupFailed(
        f"`{path}` cannot be copied into the worktree of `{folder.name}`: there is a {kind} `{blocked}` in its place.",
        hint=f"Move `{blocked}` out of `.worktrees/{folder.name}`, or take `{path}` out of {NAMED_BY}; then try again.",
        path=path,
        in_the_way=blocked,
    )


def _is_real_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _mark(found: os.stat_result) -> str:
    """Return a mark of a file that no program can change it without changing; of a folder, which one it is."""
    if stat.S_ISDIR(found.st_mode):
        return f"{found.st_dev}:{found.st_ino}"
    return f"{found.st_dev}:{found.st_ino}:{found.st_mode:o}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _read(path: Path) -> bytes:
    with open(os.open(path, _PLAIN), "rb") as file:
        return file.read(MOST_BYTES + 1)


def _is_same_file(place: Path, content: bytes, mode: int) -> bool:
    try:
        found = place.lstat()
        return found.st_mode == mode and found.st_size == len(content) and _read(place) == content
    except OSError:
        return False
