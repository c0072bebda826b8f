"""Placement of new files in a repository: all of them or none."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aop.adapters.files.own_folders import flush_folder, held_folder, own_folder
from aop.core.errors import Fault


def place_new_files(root: Path, folder: str, files: Mapping[str, str]) -> tuple[str, ...]:
    """Create files of one folder, all or none, and return their paths; one that exists is kept.

    Raises: PathOutOfBounds.
    """
    if not files:
        return ()
    try:
        with held_folder(own_folder(root, ".aop", "tmp")) as beside:
            made = beside / "made"
            made.mkdir()
            for name, text in files.items():
                _write(made / name, text.encode())
            flush_folder(made)
            parent, _, name = folder.rpartition("/")
            target = own_folder(root, *filter(None, parent.split("/"))) / name
            placed = tuple(files) if _move_folder(made, target) else _link_each(made, target, tuple(files))
            flush_folder(target)
    except OSError as error:
        raise Fault(f"`{folder}` cannot be written: {error.strerror}. No file was written.") from error
    return tuple(f"{folder}/{name}" for name in placed)


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move_folder(made: Path, target: Path) -> bool:
    """Move a folder to a place where there is none; tell whether that was so. All its files appear at once."""
    if os.path.lexists(target):
        own_folder(target.parent, target.name)
        return False
    made.rename(target)
    return True


def _link_each(made: Path, target: Path, names: Sequence[str]) -> tuple[str, ...]:
    placed: list[str] = []
    try:
        for name in names:
            # A link, unlike a rename, never replaces a file that was created meanwhile.
            with suppress(FileExistsError):
                os.link(made / name, target / name)
                placed.append(name)
    except OSError:
        for name in placed:
            (target / name).unlink(missing_ok=True)
        raise
    return tuple(placed)
