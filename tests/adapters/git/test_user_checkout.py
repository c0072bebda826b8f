"""The user's own checkout: brought along after a crash, with the user's line endings, without starting a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aop.adapters.git.checkouts.note import CheckoutNote, CheckoutNotes
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import CheckoutBusy, CheckoutChanged, CheckoutNeedsFilter
from aop.core.ids import CommitId, ObjectId
from aop.kernel.ports.git import CheckoutStep
from tests.adapters.git.repositories import with_noted_git
from tests.world import git, make_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


@pytest.fixture
def repository(root: Path, tmp_path: Path) -> Iterator[Repository]:
    opened = open_repository(root, {**os.environ, "HOME": str(tmp_path)})
    opened.exclude_runtime_files()
    yield opened
    opened.close()


def moved(repository: Repository, files: Mapping[str, str | None]) -> CheckoutStep:
    """Move `main` as AOP does, to a commit with these files; return the step that the checkout has to take."""
    old = repository.branches.head("main")
    assert old is not None
    clone = repository.root.parent / "clone"
    git(repository.root, "worktree", "add", "-q", "--detach", str(clone), old)
    for path in [path for path, text in files.items() if text is None]:
        git(clone, "rm", "-q", path)
    for path, text in files.items():
        if text is not None:
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text(text)
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Merge")
    new = CommitId(ObjectId(git(clone, "rev-parse", "HEAD").strip()))
    git(repository.root, "worktree", "remove", "--force", str(clone))
    assert repository.branches.move("main", to=new, old=old)
    return CheckoutStep(old=old, new=new, files=len(files))


def status(repository: Repository) -> str:
    return git(repository.root, "status", "--porcelain")


def test_an_update_that_was_killed_between_two_files_is_finished(repository: Repository) -> None:
    step = moved(
        repository, {"src/a.txt": "merged\n", "src/b.txt": "merged\n", "src/new.txt": "new\n", "README.md": None}
    )
    note = CheckoutNote(branch="main", shows=step.old, begun=True)
    CheckoutNotes(repository.root / ".aop" / "checkout.json").write(note)
    (repository.root / "src/a.txt").write_text("merged\n")  # written
    (repository.root / "src/b.txt").write_text("")  # opened, and not yet written
    (repository.root / "src/new.txt").write_text("new\n")
    (repository.root / "README.md").unlink()
    lock = repository.root / ".git/index.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    assert repository.checkout.follow("main") == step
    assert status(repository) == ""
    assert (repository.root / "src/b.txt").read_text() == "merged\n"
    assert repository.checkout_behind("main") is None


@pytest.mark.parametrize(
    ("staged", "asked"), [(None, ["config", "read-tree"]), ("src/b.txt", ["diff-index", "config", "read-tree"])]
)
def test_an_index_that_holds_the_old_tree_and_notes_it_is_not_compared_by_git(
    repository: Repository, tmp_path: Path, staged: str | None, asked: list[str]
) -> None:
    step = moved(repository, {"src/a.txt": "merged\n"})
    if staged is not None:
        (repository.root / staged).write_text("staged\n")
        git(repository.root, "add", staged)
    starts = tmp_path / "starts"
    noted = open_repository(repository.root, {**with_noted_git(starts), "HOME": str(tmp_path)})
    assert noted.checkout.follow("main") == step
    noted.close()
    words = [word for line in starts.read_text().splitlines() for word in line.split()]
    assert [word for word in words if word in ("config", "diff-index", "read-tree")] == asked
    assert status(repository) == ("" if staged is None else f"M  {staged}\n")


def test_without_a_crash_an_emptied_file_is_a_change_of_the_person(repository: Repository) -> None:
    moved(repository, {"src/a.txt": "merged\n"})
    (repository.root / "src/a.txt").write_text("")
    with pytest.raises(CheckoutChanged):
        repository.checkout.follow("main")
    assert (repository.root / "src/a.txt").read_text() == ""


def test_the_line_endings_of_the_person_are_written(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    (repository.root / "src/a.txt").unlink()
    git(repository.root, "-c", "core.autocrlf=true", "checkout", "-q", "--", "src/a.txt")
    assert (repository.root / "src/a.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    step = moved(repository, {"src/a.txt": "merged\nlines\n"})
    assert repository.checkout.follow("main") == step
    assert (repository.root / "src/a.txt").read_bytes() == b"merged\r\nlines\r\n"


def test_a_file_that_needs_a_filter_is_left_to_the_git_of_the_person(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    step = moved(repository, {"data.bin": "pointer\n"})
    git(repository.root, "config", "filter.lfs.smudge", f"touch {ran}; cat")
    git(repository.root, "config", "filter.lfs.clean", f"touch {ran}; cat")
    (repository.root / ".git/info/attributes").write_text("*.bin filter=lfs\n")
    with pytest.raises(CheckoutNeedsFilter) as refused:
        repository.checkout.follow("main")
    assert (
        refused.value.message == "`data.bin` is written by the filter `lfs` of git, a program that AOP does not start."
    )
    assert f"git read-tree -m -u {step.old} {step.new}" in refused.value.next_action
    assert not ran.exists()


def test_no_hook_of_the_person_runs(repository: Repository, tmp_path: Path) -> None:
    step = moved(repository, {"src/a.txt": "merged\n"})
    hook = repository.root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    assert repository.checkout.follow("main") == step
    assert not (tmp_path / "ran").exists()


def test_a_git_of_the_person_at_work_is_waited_for_by_the_person(repository: Repository) -> None:
    moved(repository, {"src/a.txt": "merged\n"})
    (repository.root / ".git/index.lock").touch()
    with pytest.raises(CheckoutBusy) as refused:
        repository.checkout.follow("main")
    assert refused.value.message == "Another git process is writing the index of the checkout."
    assert (repository.root / "src/a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("files", "blocked"),
    [
        ({"src": "a file\n", "src/a.txt": None, "src/b.txt": None}, "src/notes.txt"),
        ({"notes/of/all.txt": "new\n"}, "notes"),
    ],
)
def test_files_in_place_of_folders_and_folders_in_place_of_files_are_named(
    repository: Repository, files: Mapping[str, str | None], blocked: str
) -> None:
    (repository.root / blocked).write_text("mine\n")
    moved(repository, files)
    with pytest.raises(CheckoutChanged) as refused:
        repository.checkout.follow("main")
    assert refused.value.facts == {"paths": [blocked]}
    (repository.root / blocked).unlink()
    assert repository.checkout.follow("main") is not None
    assert status(repository) == ""
