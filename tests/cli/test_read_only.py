"""A repository that cannot be written can still be read."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.world import PATCH, World, git, make_repository

_DROP, _OVERRIDE_PERMISSIONS, _READ_ALL = 24, 1, 2


def _obey_permissions() -> None:
    """Let root be refused like anybody else; whoever is not root is refused already."""
    ctypes.CDLL(None).prctl(_DROP, _OVERRIDE_PERMISSIONS, 0, 0, 0)


def _open_nothing() -> None:
    """Let root not even read what is closed."""
    _obey_permissions()
    ctypes.CDLL(None).prctl(_DROP, _READ_ALL, 0, 0, 0)


def give_away(place: Path) -> str:
    """Give a folder and all in it to another user; return how AOP says that. Only root can; others close it."""
    for path in (place, *place.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, 65_534, 65_534, follow_symlinks=False)
        elif not path.is_symlink():
            path.chmod(path.lstat().st_mode & ~0o222)
    return "it belongs to the user `nobody`, and you are `root`" if os.geteuid() == 0 else "its permissions forbid it"


def take_back(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, 0, 0, follow_symlinks=False)
        elif not path.is_symlink():
            path.chmod(path.lstat().st_mode | 0o200)


def look(root: Path, *words: str, obey: Callable[[], None] = _obey_permissions) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "aop.cli.main", *words, "--repo", str(root)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey,
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


@pytest.mark.parametrize("place", ["", ".git/objects", ".aop", ".worktrees"])
def test_files_of_another_user_are_named_and_nothing_is_lost(tmp_path: Path, place: str) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.close()
    root = world.root
    patch = json.dumps({"feature_id": "one", "unified_diff": PATCH})
    apply = ("call", "repo.apply_patch", patch, "--role", "builder", "--operation-id", "first")
    reason = give_away(root / place)
    refused = look(root, *apply)
    health = look(root, "doctor")
    take_back(root / place)
    said = f"`{root / place}` cannot be written: {reason}."
    error = json.loads(refused[1])["error"]
    assert (refused[0], error["code"], error["message"]) == (2, "files_closed", said)
    assert (health[0], f"failure  permissions    {said}" in health[1]) == (1, True)
    applied, _ = look(root, *apply)
    assert (applied, (root / ".worktrees/one/src/a.txt").read_text()) == (0, "one\nTWO\nthree\n")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.close()
    features = world.root / "agentic/features"
    features.chmod(0)
    code, told = look(world.root, "doctor", obey=_open_nothing)
    features.chmod(0o755)
    said = f"failure  permissions    `{features}` cannot be read: its permissions forbid it."
    assert (code, said in told) == (1, True)


@pytest.mark.parametrize("place", [".git", ".git/HEAD", ".git/config", ".git/objects", ".git/refs/heads"])
def test_a_repository_whose_commits_are_closed_is_not_called_empty(tmp_path: Path, place: str) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.ok("forge.project_new", name="Shop")
    world.close()
    closed = world.root / place
    mode = closed.stat().st_mode
    closed.chmod(0)
    code, told = look(world.root, "forge", "scan", "shop", obey=_open_nothing)
    closed.chmod(mode)
    said = f"aop: `{closed}` cannot be read: its permissions forbid it. [files_closed]"
    assert (code, told.splitlines()[0]) == (2, said)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_that_is_open_to_read_is_scanned(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo", {"app.py": "x = 1\n"}))
    world.ok("forge.project_new", name="Shop")
    world.close()
    give_away(world.root)
    code, told = look(world.root, "forge", "scan", "shop", obey=lambda: None)
    assert (code, "shop-s1: commit " in told) == (0, True)


def test_a_folder_that_cannot_be_opened_is_not_called_something_else(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    root.chmod(0)
    code, told = look(root, "status", obey=_open_nothing)
    root.chmod(0o755)
    assert (code, told.splitlines()[0]) == (2, f"aop: The folder `{root}` cannot be opened by you. [files_closed]")


ON_A_FULL_DISK = """
mount -t tmpfs -o size=8m tmpfs "$1" && cp -a "$2" "$1/repo" && cd "$1/repo" || exit 9
cat /dev/zero > "$1/rest" 2> /dev/null
aop() { "$0" -m aop.cli.main "$@" || echo "exit code $?"; }
aop status && TMPDIR="$1" aop inbox && aop review one && aop evidence verify && aop call report.dashboard
echo "The last one changes something:"
aop call feature.log_append '{"feature_id": "one", "note": "Hello."}'
"""


@pytest.mark.unmeasured
def test_a_full_disk_can_be_read_and_not_changed(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    # A namespace of its own, which takes the disk along when it ends.
    words = ["unshare", "-rm", "sh", "-c", ON_A_FULL_DISK, sys.executable, str(disk), str(world.root)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    read, _, changed = ran.stdout.partition("The last one changes something:\n")
    assert "exit code" not in read, ran
    for part in ("1 feature: 1 building", "Feature   one, building", '"ok": true'):
        assert part in read, ran
    assert ("The inbox is empty" in ran.stderr, "Intact: 2 journal entries" in ran.stderr) == (True, True), ran
    assert ('"disk_full"' in changed, changed.endswith("exit code 6\n")) == (True, True), ran


EXPOSED = [
    (".aop", 0o777, "can be changed by other users: its mode is 0777."),
    (".aop/keys", 0o733, "can be changed by other users: its mode is 0733."),
    (".aop/keys/approval.key", 0o644, "can be read or changed by other users: its mode is 0644."),
]


@pytest.mark.parametrize(("place", "mode", "said"), EXPOSED, ids=[place for place, _, _ in EXPOSED])
def test_private_files_that_others_can_change_or_read_are_refused(
    tmp_path: Path, place: str, mode: int, said: str
) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.ready()
    world.approval()
    world.close()
    exposed = world.root / place
    exposed.chmod(mode)
    refused, health = look(world.root, "status"), look(world.root, "doctor")
    assert (refused[0], refused[1].splitlines()[0]) == (2, f"aop: `{exposed}` {said} [files_exposed]")
    assert (health[0], f"failure  permissions    `{exposed}` {said}" in health[1]) == (1, True)
    exposed.chmod(0o700 if exposed.is_dir() else 0o600)
    assert look(world.root, "status")[0] == 0


def test_without_a_umask_own_files_are_still_closed(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")

    def without_umask() -> None:
        os.umask(0)

    words = ("call", "feature.init", '{"feature_id": "one"}', "--json")
    assert [look(root, *each, obey=without_umask)[0] for each in (words, ("status",))] == [0, 0]
    private = root / ".aop"
    assert [path for path in (private, *private.rglob("*")) if path.lstat().st_mode & 0o002] == []


def test_a_key_that_is_a_link_is_refused(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.plan("one")
    world.close()
    (world.root / ".aop/keys").mkdir(mode=0o700, exist_ok=True)
    (world.root / ".aop/keys/token.key").symlink_to("/dev/zero")
    code, told = look(world.root, "token", "builder", "--feature", "one")
    assert (code, "must be a plain file, and is a link or a folder. [files_exposed]" in told) == (2, True)
