"""A worktree that is watched: it is seen as a process sees it that comes anew, whatever happened to it since."""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import TreeId
from aop.kernel.ports.git import WorktreeStatus
from tests.adapters.git.repositories import ALICE, BASE, base_tree, files_in, make_repository, start, tree_with

FILES = {**BASE, ".gitignore": "build/\n*.log\n"}
WATCHED = len(FILES) + len(("", "src", "src/deep"))
CLEAN = WorktreeStatus(porcelain="", strays=())


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = make_repository(tmp_path / "project", FILES)
    yield made
    made.close()


@pytest.fixture
def folder(repository: Repository) -> Path:
    """A worktree that is watched."""
    folder = start(repository)
    watch(repository, base_tree(repository))
    return folder


def watch(repository: Repository, tree: TreeId) -> None:
    for _ in range(5):
        repository.worktrees.clear_strays(ALICE, tree)
    assert watches(repository) == WATCHED


def watches(repository: Repository) -> int:
    """Return how many files and folders of the worktree this process watches."""
    folder = repository.worktrees.path(ALICE)
    inodes = {os.lstat(path).st_ino for path in (folder, *folder.rglob("*"))}
    shown = [open_file.read_text() for open_file in Path("/proc/self/fdinfo").iterdir() if open_file.exists()]
    return sum(int(inode, 16) in inodes for text in shown for inode in re.findall(r"inotify wd:\w+ ino:(\w+)", text))


def seen_anew(repository: Repository, tree: TreeId) -> WorktreeStatus:
    other = open_repository(repository.root, os.environ)
    try:
        return other.worktrees.status(ALICE, tree)
    finally:
        other.close()


def test_a_worktree_that_is_looked_at_again_and_again_is_watched(repository: Repository) -> None:
    tree = base_tree(repository)
    start(repository)
    for _ in range(2):
        repository.worktrees.clear_strays(ALICE, tree)
        repository.worktrees.discard_strays(ALICE, tree)
    assert watches(repository) == 0
    repository.worktrees.clear_strays(ALICE, tree)
    assert (watches(repository), repository.worktrees.status(ALICE, tree)) == (WATCHED, CLEAN)
    repository.close()
    assert watches(repository) == 0


def written(folder: Path) -> None:
    (folder / "src/a.txt").write_text("other\n")


def written_in_the_same_size_and_time(folder: Path) -> None:
    file = folder / "src/a.txt"
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def written_through_another_name_elsewhere(folder: Path) -> None:
    os.link(folder / "src/a.txt", folder.parent.parent / "name")
    (folder.parent.parent / "name").write_text("other\n")


def written_through_another_name_that_is_ignored(folder: Path) -> None:
    (folder / "build").mkdir()
    os.link(folder / "src/a.txt", folder / "build/name")
    (folder / "build/name").write_text("other\n")


def written_in_memory(folder: Path) -> None:
    with open(folder / "src/a.txt", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"X"


def replaced(folder: Path) -> None:
    (folder / "new").write_text("other\n")
    (folder / "new").replace(folder / "src/a.txt")


def replaced_and_written_later(folder: Path) -> None:
    (folder / "new").write_text(FILES["src/a.txt"])
    (folder / "new").replace(folder / "src/a.txt")
    (folder / "src/a.txt").write_text("other\n")


def made_executable(folder: Path) -> None:
    (folder / "src/a.txt").chmod(0o755)


def removed(folder: Path) -> None:
    (folder / "src/deep/b.txt").unlink()


def replaced_by_a_link(folder: Path) -> None:
    (folder / "src/a.txt").rename(folder / "src/moved")
    (folder / "src/a.txt").symlink_to("moved")


def replaced_by_a_folder(folder: Path) -> None:
    (folder / "src/a.txt").unlink()
    (folder / "src/a.txt").mkdir()


def replaced_by_a_pipe(folder: Path) -> None:
    (folder / "src/a.txt").unlink()
    os.mkfifo(folder / "src/a.txt")


def with_a_folder_behind_a_link(folder: Path) -> None:
    (folder / "src").rename(folder / "moved")
    (folder / "src").symlink_to("moved")


def with_a_folder_removed(folder: Path) -> None:
    shutil.rmtree(folder / "src")


def with_everything_replaced(folder: Path) -> None:
    folder.rename(folder.parent / "moved")
    shutil.copytree(folder.parent / "moved", folder)
    (folder / "src/a.txt").write_text("other\n")


def with_a_file_more(folder: Path) -> None:
    (folder / "src/more.txt").write_text("more\n")


def with_a_folder_more(folder: Path) -> None:
    (folder / "src/more/and").mkdir(parents=True)
    (folder / "src/more/and/more.txt").write_text("more\n")


def with_more_notices_than_are_kept(folder: Path) -> None:
    for number in range(20_000):
        (folder / "src/a.txt").chmod(0o600 if number % 2 else 0o644)
        (folder / "README.md").chmod(0o600 if number % 2 else 0o644)
    (folder / "src/deep/b.txt").write_text("other\n")


@pytest.mark.hostile("G11")
@pytest.mark.parametrize(
    "change",
    [
        written,
        written_in_the_same_size_and_time,
        written_through_another_name_elsewhere,
        written_through_another_name_that_is_ignored,
        written_in_memory,
        replaced,
        replaced_and_written_later,
        made_executable,
        removed,
        replaced_by_a_link,
        replaced_by_a_folder,
        replaced_by_a_pipe,
        with_a_folder_behind_a_link,
        with_a_folder_removed,
        with_everything_replaced,
        with_a_file_more,
        with_a_folder_more,
        with_more_notices_than_are_kept,
    ],
)
def test_whatever_is_changed_in_a_watched_worktree_is_seen_and_undone(
    repository: Repository, folder: Path, change: Callable[[Path], None]
) -> None:
    tree = base_tree(repository)
    change(folder)
    seen = repository.worktrees.status(ALICE, tree)
    assert seen.strays
    assert seen == seen_anew(repository, tree)
    repository.worktrees.discard_strays(ALICE, tree)
    assert {path: text for path, text in files_in(folder).items() if not path.startswith("build/")} == FILES
    assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree) == CLEAN


PLACES = st.sampled_from(["README.md", "src", "src/a.txt", "src/deep/b.txt", "src/c.txt", "more", "more/d.log"])
ACTIONS = st.sampled_from(["write", "same", "remove", "move", "link", "executable", "folder"])


def act(folder: Path, action: str, path: str, other: str) -> None:
    """Do one thing to a worktree; what the file system does not allow is left alone."""
    place = folder / path
    with suppress(OSError):
        if action == "write":
            place.write_text("other\n")
        elif action == "same":
            place.write_text(FILES.get(path, "same\n"))
        elif action == "remove":
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        elif action == "move":
            place.rename(folder / other)
        elif action == "link":
            place.symlink_to(other)
        elif action == "executable":
            place.chmod(0o755)
        else:
            place.mkdir()


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.lists(st.tuples(ACTIONS, PLACES, PLACES), min_size=1, max_size=4), min_size=1, max_size=2))
def test_whatever_is_done_a_watched_worktree_is_seen_as_by_a_process_that_comes_anew(
    repository: Repository, folder: Path, rounds: list[list[tuple[str, str, str]]]
) -> None:
    tree = base_tree(repository)
    for actions in rounds:
        for action in actions:
            act(folder, *action)
        assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree)
    repository.worktrees.discard_strays(ALICE, tree)
    for ignored in ("build", "more"):
        shutil.rmtree(folder / ignored, ignore_errors=True)
    for _ in range(5):
        repository.worktrees.clear_strays(ALICE, tree)
    assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree) == CLEAN


def test_a_change_that_is_undone_leaves_the_watch_in_place(repository: Repository, folder: Path) -> None:
    written(folder)
    (folder / "src/a.txt").write_text(FILES["src/a.txt"])
    (folder / "passing").write_text("gone soon\n")
    (folder / "passing").unlink()
    assert (repository.worktrees.status(ALICE, base_tree(repository)), watches(repository)) == (CLEAN, WATCHED)


def test_what_is_ignored_does_not_count(repository: Repository, folder: Path) -> None:
    (folder / "build").mkdir()
    (folder / "build/made").write_text("made\n")
    (folder / "src/run.log").write_text("ran\n")
    assert (repository.worktrees.status(ALICE, base_tree(repository)), watches(repository)) == (CLEAN, WATCHED)


def test_a_file_that_was_put_back_is_watched_in_its_turn(repository: Repository, folder: Path) -> None:
    tree = base_tree(repository)
    (folder / "new").write_text(FILES["src/a.txt"])
    (folder / "new").replace(folder / "src/a.txt")
    assert repository.worktrees.status(ALICE, tree) == CLEAN
    written(folder)
    assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree) != CLEAN


def test_a_folder_whose_rights_were_changed_is_looked_at_as_a_whole(repository: Repository, folder: Path) -> None:
    (folder / "src").chmod(0o700)
    assert (repository.worktrees.status(ALICE, base_tree(repository)), watches(repository)) == (CLEAN, 0)


@pytest.mark.parametrize(
    "files",
    [
        {"src/a.txt": "next\n"},
        {"src/deep/b.txt": None},
        {"src/c.txt": "new\n"},
        {"fresh/c.txt": "new\n"},
        {"build/c.txt": "new\n"},
        {"src/a.txt": None, "src/a.txt/below": "new\n"},
    ],
)
def test_a_watched_worktree_is_followed_to_another_tree(
    repository: Repository, folder: Path, files: dict[str, str | None]
) -> None:
    (folder / "build").mkdir()
    (folder / "build/made").write_text("made\n")
    tree = tree_with(repository, files)
    repository.worktrees.follow_tree(ALICE, tree)
    for _ in range(6):
        assert repository.worktrees.clear_strays(ALICE, tree) == ()
        assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree)
    (folder / "README.md").write_text("other\n")
    assert repository.worktrees.status(ALICE, tree) == seen_anew(repository, tree)
    assert "README.md" in repository.worktrees.status(ALICE, tree).strays
