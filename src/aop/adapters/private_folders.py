"""What a step that sees the files of the machine is given of its own: a home, a place for temporary files."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.toolchains import is_within


@contextmanager
def private_folder(folder: Path) -> Iterator[Path]:
    """Make a folder with `home` and `tmp` in it, which is gone afterwards."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        _remove(folder)


def link_into(own_home: Path, home: str, places: Iterable[str]) -> None:
    """Let the own home lead to those of the places that lie in the home of the user."""
    linked: list[str] = []
    for place in sorted(places):
        if is_within(place, home) and place != home and not is_within(place, *linked):
            link = own_home / os.path.relpath(place, home)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.symlink_to(place)
            linked.append(place)


@contextmanager
def kept_link_to_repository(worktree: Path) -> Iterator[None]:
    """Put the file `.git` back that leads from a worktree to its repository, whatever a step makes of it."""
    path = worktree / ".git"
    before = _plain_content(path)
    try:
        yield
    finally:
        if before is not None and _plain_content(path) != before:
            _remove(path)
            with open(path, "xb") as file:
                file.write(before)


def _plain_content(path: Path) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def _remove(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    # Some tools write-protect the folders of their caches.
    for parent, names, _ in os.walk(path):
        for below in (os.path.join(parent, name) for name in names):
            if not os.path.islink(below):
                os.chmod(below, stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)
