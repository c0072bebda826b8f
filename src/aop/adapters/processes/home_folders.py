"""What a step outside of bubblewrap is given of its own: a home, a place for temporary files, and its `.git` back."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.files.own_folders import held_folder, remove_folder
from aop.adapters.processes.toolchains import is_within

_LARGEST = 64 * 1024


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Make a folder with `home` and `tmp` in it, which is gone afterwards."""
    with held_folder(parent) as folder:
        for name in ("home", "tmp"):
            (folder / name).mkdir(mode=0o700)
        yield folder


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
    link = worktree / ".git"
    before = _plain_content(link)
    try:
        yield
    finally:
        if before is not None and _plain_content(link) != before:
            if link.is_dir() and not link.is_symlink():
                remove_folder(link)
            else:
                link.unlink(missing_ok=True)
            link.write_bytes(before)


def _plain_content(path: Path) -> bytes | None:
    """Return what is in a small plain file; None if it is anything else."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            content = file.read(_LARGEST + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
    return content if content is not None and len(content) <= _LARGEST else None
