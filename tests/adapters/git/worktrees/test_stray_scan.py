"""Whether a worktree is as its index says, seen without git: clean only if git says so too; and what else is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from aop.adapters.git.repository import Repository
from aop.adapters.git.worktrees.stray_scan import other_files
from tests.adapters.git.random_trees import Content, PlainGit, contents
from tests.adapters.git.repositories import (
    ALICE,
    BASE,
    base_tree,
    files_in,
    git,
    make_repository,
    start,
    tree_with,
    write_files,
)

NOBODY = 65534


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = make_repository(tmp_path / "project")
    yield made
    made.close()


@pytest.fixture
def folder(repository: Repository) -> Path:
    return start(repository)


def index_of(repository: Repository) -> Path:
    return repository.git_dir / "worktrees/alice/index"


def look(repository: Repository, *, indexed_ns: int | None = None) -> set[str] | None:
    index = index_of(repository)
    return other_files(
        repository.worktrees.path(ALICE),
        index.read_bytes(),
        indexed_ns=index.stat().st_mtime_ns if indexed_ns is None else indexed_ns,
        digest_size=20,
    )


def test_a_worktree_as_it_was_made_has_nothing_beside_its_files(repository: Repository, folder: Path) -> None:
    assert look(repository) == set()


def rewritten_in_the_same_size(file: Path) -> None:
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_by_its_copy(file: Path) -> None:
    shutil.copy2(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def made_executable(file: Path) -> None:
    file.chmod(0o755)


def replaced_by_a_link(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replaced_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def with_its_folder_behind_a_link(file: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.symlink_to("moved")


def given_away(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)


@pytest.mark.hostile("G11")
@pytest.mark.parametrize(
    "change",
    [
        rewritten_in_the_same_size,
        replaced_by_its_copy,
        made_executable,
        replaced_by_a_link,
        replaced_by_a_folder,
        replaced_by_a_pipe,
        with_its_folder_behind_a_link,
        pytest.param(given_away, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can")),
        Path.unlink,
    ],
)
def test_a_file_that_may_be_another_one_is_for_git_to_judge(
    repository: Repository, folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder / "src/a.txt")
    assert look(repository) is None
    repository.worktrees.clear_strays(ALICE, base_tree(repository))
    assert files_in(folder) == BASE


def test_a_file_as_young_as_the_index_is_read(repository: Repository, folder: Path) -> None:
    youngest = max(path.stat().st_mtime_ns for path in folder.rglob("*.txt"))
    assert look(repository, indexed_ns=0) == set()
    assert look(repository, indexed_ns=youngest + 1) == set()
    index = bytearray(index_of(repository).read_bytes())
    # The object of the first entry, `README.md`, becomes another one.
    index[12 + 40] ^= 1
    assert other_files(folder, bytes(index), indexed_ns=youngest + 1, digest_size=20) == set()
    assert other_files(folder, bytes(index), indexed_ns=0, digest_size=20) is None


def test_a_young_link_is_read_and_a_submodule_is_not_looked_into(repository: Repository, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    git(repository.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root))
    (repository.root / "link").symlink_to("nowhere")
    git(repository.root, "add", "link")
    git(repository.root, "commit", "--quiet", "-m", "both")
    folder = start(repository)
    write_files(folder / "library", {"inside.txt": "x\n"})
    assert look(repository, indexed_ns=0) == set()
    (folder / "link").unlink()
    (folder / "link").symlink_to("elsewhr")
    assert look(repository, indexed_ns=0) is None


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=contents(), beside=contents())
def test_what_lies_beside_the_files_is_what_git_lists(
    repository: Repository, folder: Path, tree: Content, beside: Content
) -> None:
    repository.worktrees.show_tree(ALICE, PlainGit(repository.root).tree(tree))
    tracked = {part for path in tree for part in (path, *map(str, Path(path).parents))}
    for path, (_, text) in beside.items():
        in_the_way = any(str(above) in tree for above in Path(path).parents)
        if path not in tracked and not in_the_way and not (folder / path).exists():
            write_files(folder, {path: text})
    listed = PlainGit(folder)("ls-files", "--others", "--directory", "-z", index=index_of(repository))
    assert look(repository) == {os.fsdecode(name) for name in listed.split(b"\0") if name}
    for left in folder.iterdir():
        if left.name != ".git":
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


@pytest.mark.hostile("G09")
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_git_folder_among_tracked_files_hides_nothing(repository: Repository, folder: Path, kind: str) -> None:
    for clear in (repository.worktrees.clear_strays, repository.worktrees.discard_strays):
        write_files(folder, {"src/.git/hooks/evil": "x\n"} if kind == "folder" else {"src/.git": "gitdir: /evil\n"})
        assert clear(ALICE, base_tree(repository)) == (("src/.git/hooks/evil",) if kind == "folder" else ("src/.git",))
        assert not (folder / "src/.git").exists()


def test_where_there_are_many_files_git_looks_and_finds_the_same(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", {**BASE, **{f"many/{n}": f"{n}\n" for n in range(1001)}})
    folder, tree = start(repository), base_tree(repository)
    before = files_in(folder)
    assert repository.worktrees.clear_strays(ALICE, tree) == ()
    (folder / "many/7").write_text("8\n")
    write_files(folder, {"stray/x": "x\n"})
    assert repository.worktrees.status(ALICE, tree).strays == ("many/7", "stray/x")
    assert repository.worktrees.discard_strays(ALICE, tree) == ("stray/x",)
    assert files_in(folder) == before
    other = tree_with(repository, {"many/7": None, "many/new": "new\n"})
    repository.worktrees.follow_tree(ALICE, other)
    assert repository.worktrees.discard_strays(ALICE, other) == ()
    assert git(folder, "status", "--porcelain") == "D  many/7\nA  many/new"
    repository.close()
