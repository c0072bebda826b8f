"""A repository that cannot be written can still be read."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.world import PATCH, World, git, make_repository

_DROP, _OVERRIDE_PERMISSIONS = 24, 1


def _obey_permissions() -> None:
    """Let root be refused like anybody else; whoever is not root is refused already."""
    ctypes.CDLL(None).prctl(_DROP, _OVERRIDE_PERMISSIONS, 0, 0, 0)


def look(root: Path, *words: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "aop.cli.main", *words, "--repo", str(root)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_obey_permissions,
    )
    return ran.returncode, ran.stdout + ran.stderr


@contextmanager
def unwritable(root: Path) -> Iterator[None]:
    """Take the right to write from everything below a folder, for a while."""
    places = [Path(folder, name) for folder, _, names in os.walk(root) for name in ("", *names)]
    modes = {place: place.lstat().st_mode for place in places if not place.is_symlink()}
    for place, mode in modes.items():
        place.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for place, mode in modes.items():
            place.chmod(mode)


def test_what_happened_in_a_repository_that_cannot_be_written_is_shown(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.patch("one", PATCH)
    with unwritable(world.root):
        # The newest changes are in SQLite's log, since the process that made them has the record open.
        code, told = look(world.root, "status")
        assert (code, told.splitlines()[0]) == (0, "repo on main | no supervisor | 1 feature: 1 building")
        code, told = look(world.root, "inbox")
        assert (code, told.startswith("The inbox is empty: ")) == (0, True)
        code, told = look(world.root, "logs", "--feature", "one")
        assert (code, "patch_applied" in told) == (0, True)
        code, told = look(world.root, "evidence", "verify")
        assert (code, "Intact: " in told) == (0, True)
    world.close()


def test_without_a_record_that_is_said(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    before = git(root, "status", "--porcelain", "--ignored")
    with unwritable(root):
        code, told = look(root, "status")
    assert (code, "[record_unavailable]" in told) == (2, True)
    assert git(root, "status", "--porcelain", "--ignored") == before
