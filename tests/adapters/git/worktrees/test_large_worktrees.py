"""A worktree with so many files that its index is left behind by patches: whoever looks at all of it finds it right."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aop.adapters.git.index.worktree_index import LARGE
from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import TreeId
from tests.adapters.git.repositories import ALICE, files_in, git, make_repository, start, tree_with
from tests.adapters.git.test_following import assert_shown

MANY = {f"many/{number // 100:02}/{'long' * 50}-{number:04}.txt": "same\n" for number in range(1050)}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = make_repository(tmp_path / "project", {"src/a.txt": "a\n", "src/b.txt": "b\n", **MANY})
    start(made)
    assert index_of(made).stat().st_size >= LARGE
    yield made
    made.close()


def index_of(repository: Repository) -> Path:
    return repository.git_dir / "worktrees/alice/index"


def sources(repository: Repository) -> dict[str, str]:
    return files_in(repository.worktrees.path(ALICE) / "src")


def trees(repository: Repository) -> tuple[TreeId, TreeId, TreeId]:
    """Return a tree that changes two files, one that takes half of it back, and one that adds and removes."""
    return (
        tree_with(repository, {"src/a.txt": "A\n", "src/b.txt": "B\n"}),
        tree_with(repository, {"src/b.txt": "BB\n"}),
        tree_with(repository, {"src/a.txt": None, "src/c.txt": "c\n"}),
    )


def test_patches_leave_the_index_alone_and_the_next_look_brings_it_up(repository: Repository) -> None:
    both, half, other = trees(repository)
    before = index_of(repository).stat().st_ino
    for tree, files in [
        (both, {"a.txt": "A\n", "b.txt": "B\n"}),
        (half, {"a.txt": "a\n", "b.txt": "BB\n"}),
        (other, {"b.txt": "b\n", "c.txt": "c\n"}),
    ]:
        assert repository.worktrees.follow_tree(ALICE, tree) == ()
        assert sources(repository) == files
    assert index_of(repository).stat().st_ino == before
    assert repository.worktrees.status(ALICE, other).strays == ()
    assert index_of(repository).stat().st_ino == before
    assert repository.worktrees.clear_strays(ALICE, other) == ()
    assert_shown(repository, other)
    assert git(repository.worktrees.path(ALICE), "status", "--porcelain") == "D  src/a.txt\nA  src/c.txt"


def staged_by_a_person(repository: Repository) -> None:
    git(repository.worktrees.path(ALICE), "add", "--all")


def taken_back_by_a_person(repository: Repository) -> None:
    git(repository.worktrees.path(ALICE), "checkout", "--", ".")


def refreshed_by_a_person(repository: Repository) -> None:
    os.utime(repository.worktrees.path(ALICE) / next(iter(MANY)))
    git(repository.worktrees.path(ALICE), "status")


def noted_half(repository: Repository) -> None:
    note = index_of(repository).with_name("index.aop-shown")
    note.write_bytes(note.read_bytes()[:50])


def brought_up_and_then_killed(repository: Repository) -> None:
    note = index_of(repository).with_name("index.aop-shown")
    left = note.read_bytes()
    repository.worktrees.show_tree(ALICE, trees(repository)[0])
    note.write_bytes(left)


def without_an_index(repository: Repository) -> None:
    index_of(repository).unlink()


def followed_by_another_process(repository: Repository) -> None:
    other = open_repository(repository.root, os.environ)
    other.worktrees.show_tree(ALICE, trees(repository)[2])
    other.worktrees.follow_tree(ALICE, trees(repository)[0])
    other.close()


@pytest.mark.parametrize(
    "meanwhile",
    [
        *(staged_by_a_person, taken_back_by_a_person, refreshed_by_a_person, noted_half),
        *(brought_up_and_then_killed, without_an_index, followed_by_another_process),
    ],
)
def test_whatever_happens_to_an_index_that_is_behind_the_next_tree_is_shown(
    repository: Repository, meanwhile: Callable[[Repository], None]
) -> None:
    both, half, _ = trees(repository)
    repository.worktrees.follow_tree(ALICE, both)
    meanwhile(repository)
    repository.worktrees.follow_tree(ALICE, half)
    repository.worktrees.clear_strays(ALICE, half)
    assert sources(repository) == {"a.txt": "a\n", "b.txt": "BB\n"}
    assert_shown(repository, half)


def test_a_file_that_was_changed_in_the_second_in_which_the_index_was_written_is_found(
    repository: Repository, tmp_path: Path
) -> None:
    _, half, _ = trees(repository)
    index, changed = index_of(repository), repository.worktrees.path(ALICE) / "src/a.txt"
    changed.write_text("A\n")
    # As if both had been written in one second: the size and the times of the changed file are those of the index.
    seen, content = changed.stat(), bytearray(index.read_bytes()[:-20])
    at = content.index(b"src/a.txt\0") - 62
    seconds, nanoseconds = zip(*(divmod(ns, 10**9) for ns in (seen.st_ctime_ns, seen.st_mtime_ns)), strict=True)
    times = (seconds[0], nanoseconds[0], seconds[1], nanoseconds[1])
    content[at : at + 24] = struct.pack(">6I", *times, seen.st_dev & 0xFFFFFFFF, seen.st_ino & 0xFFFFFFFF)
    index.write_bytes(content + hashlib.sha1(content, usedforsecurity=False).digest())
    os.utime(index, ns=(seen.st_mtime_ns, seen.st_mtime_ns))
    # Git compares seconds, so what it writes from now on is younger than the file.
    later = tmp_path / "later"
    later.touch()
    while int(later.stat().st_mtime) <= int(seen.st_mtime):
        later.touch()

    repository.worktrees.show_tree(ALICE, half)

    assert sources(repository) == {"a.txt": "a\n", "b.txt": "BB\n"}


@pytest.mark.hostile("G09")
def test_a_file_that_was_changed_before_the_index_is_brought_up_is_not_taken_for_the_trees(
    repository: Repository,
) -> None:
    both, _, _ = trees(repository)
    repository.worktrees.follow_tree(ALICE, both)
    changed = repository.worktrees.path(ALICE) / "src/a.txt"
    changed.write_text("X\n")
    # As if it had been there long before the index was written.
    os.utime(changed, (1_000_000_000, 1_000_000_000))
    assert repository.worktrees.status(ALICE, both).strays == ("src/a.txt",)
    repository.worktrees.show_tree(ALICE, both)
    assert sources(repository) == {"a.txt": "A\n", "b.txt": "B\n"}
    assert_shown(repository, both)


def test_nothing_of_the_tree_goes_to_quarantine_when_the_worktree_is_removed(repository: Repository) -> None:
    repository.worktrees.follow_tree(ALICE, trees(repository)[2])
    repository.worktrees.remove(ALICE)
    assert not (repository.root / ".aop/quarantine").exists()
