"""A worktree that follows from tree to tree: only what differs is written, and git finds nothing to complain about."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import TreeId
from tests.adapters.git.random_trees import Content, PlainGit, contents
from tests.adapters.git.repositories import (
    ALICE,
    BASE,
    CHANGE_A,
    CREATE_C,
    DELETE_B,
    base_tree,
    files_in,
    git,
    head,
    make_repository,
    patched,
    start,
    tree_with,
    write_files,
)

ALL_CHANGED = {"README.md": "hello\n", "src/a.txt": "one\nTWO\nthree\n", "src/c.txt": "see\n"}
IN_AN_HOUR = 4_000_000_000


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = make_repository(tmp_path / "project")
    yield made
    made.close()


@pytest.fixture
def folder(repository: Repository) -> Path:
    return start(repository)


@pytest.fixture
def changed(repository: Repository) -> TreeId:
    return patched(repository, base_tree(repository), CREATE_C + CHANGE_A + DELETE_B)


def assert_shown(repository: Repository, tree: TreeId) -> None:
    """Have git compare the files, the index and what the index notes of its folders with a tree."""
    folder = repository.worktrees.path(ALICE)
    index = repository.git_dir / "worktrees/alice/index"
    plain = PlainGit(folder)
    assert plain("ls-files", "-z", "--stage", index=index).replace(b" 0\t", b"\t") == (
        plain("ls-tree", "-r", "-z", tree).replace(b" blob ", b" ")
    )
    # Newer than every file: git goes by what the index says of them, and reads none.
    newer = folder.parent / "newer-index"
    shutil.copy(index, newer)
    os.utime(newer, (IN_AN_HOUR, IN_AN_HOUR))
    assert plain("diff-files", "--raw", index=newer) == b""
    assert plain("write-tree", index=index).decode().strip() == tree
    for entry in plain("ls-tree", "-r", "-d", tree).decode().splitlines():
        facts, name = entry.split("\t")
        if not name.startswith('"'):
            assert plain("write-tree", f"--prefix={name}/", index=index).decode().strip() == facts.split(" ")[2]
    plain("fsck", "--no-dangling", "--strict", index=index)
    assert plain("ls-files", "--others", index=index) == b""


# --- from tree to tree -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@settings(max_examples=20)
@given(
    trees=st.lists(contents(modes=st.sampled_from(["100644", "100755"])) | contents(), min_size=2, max_size=4),
    beside=st.booleans(),
)
def test_wherever_it_goes_files_and_index_are_what_git_would_make_them(
    tmp_path_factory: pytest.TempPathFactory, object_format: str, trees: list[Content], *, beside: bool
) -> None:
    repository = make_repository(tmp_path_factory.mktemp("x") / "project", object_format=object_format)
    start(repository)
    plain = PlainGit(repository.root)
    for content in trees:
        tree = plain.tree({**content, "z": ("100644", "the same")} if beside else content)
        assert repository.worktrees.follow_tree(ALICE, tree) == ()
        assert_shown(repository, tree)
    repository.close()


def test_a_file_that_is_the_same_in_both_trees_is_not_looked_at(
    repository: Repository, folder: Path, changed: TreeId
) -> None:
    (folder / "README.md").write_text("somebody's\n")
    assert repository.worktrees.follow_tree(ALICE, changed) == ()
    assert files_in(folder) == {**ALL_CHANGED, "README.md": "somebody's\n"}
    assert git(folder, "status", "--porcelain") == " M README.md\nM  src/a.txt\nA  src/c.txt\nD  src/deep/b.txt"
    assert repository.worktrees.show_tree(ALICE, changed) == ("README.md",)
    assert files_in(folder) == ALL_CHANGED


@pytest.mark.parametrize("half_written", ["", "one\nTW", "one\nTWo\nthree\n", "one\nTWO\nthree\n", "one\ntwo\nthree\n"])
def test_a_file_that_was_half_written_over_by_a_killed_process_is_nobodys_edit(
    repository: Repository, folder: Path, changed: TreeId, half_written: str
) -> None:
    (folder / "src/a.txt").write_text(half_written)
    assert repository.worktrees.follow_tree(ALICE, changed) == ()
    assert files_in(folder) == ALL_CHANGED


def test_following_again_writes_nothing(repository: Repository, folder: Path, changed: TreeId) -> None:
    repository.worktrees.follow_tree(ALICE, changed)
    index = repository.git_dir / "worktrees/alice/index"
    before = index.stat()
    repository.worktrees.follow_tree(ALICE, changed)
    after = index.stat()
    # When it was read last is the file system's own business.
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_edits_of_files_that_change_and_unknown_files_in_the_way_go_to_quarantine(
    repository: Repository, folder: Path, changed: TreeId
) -> None:
    (folder / "src/a.txt").write_text("drift\n")
    (folder / "src/deep/b.txt").write_text("drift\n")
    write_files(folder, {"src/c.txt": "a person's notes\n"})
    assert repository.worktrees.follow_tree(ALICE, changed) == ("src/a.txt", "src/deep/b.txt", "src/c.txt")
    assert files_in(folder) == ALL_CHANGED
    assert files_in(repository.root / ".aop/quarantine/alice") == {
        "1/src/a.txt": "drift\n",
        "1/src/deep/b.txt": "drift\n",
        "1/src/c.txt": "a person's notes\n",
    }
    assert_shown(repository, changed)


@pytest.mark.hostile("D076", "G11")
@pytest.mark.parametrize("place", ["src", "src/deep", "src/a.txt", "src/c.txt"])
def test_nothing_is_written_or_removed_through_a_planted_link(
    repository: Repository, folder: Path, changed: TreeId, tmp_path: Path, place: str
) -> None:
    write_files(tmp_path / "outside", {"a.txt": "canary\n", "b.txt": "canary\n", "c.txt": "canary\n"})
    if (folder / place).is_dir():
        shutil.rmtree(folder / place)
        (folder / place).symlink_to(tmp_path / "outside")
    else:
        (folder / place).unlink(missing_ok=True)
        (folder / place).symlink_to(tmp_path / "outside/a.txt")
    repository.worktrees.follow_tree(ALICE, changed)
    repository.worktrees.clear_strays(ALICE, changed)
    assert files_in(tmp_path / "outside") == {"a.txt": "canary\n", "b.txt": "canary\n", "c.txt": "canary\n"}
    assert files_in(folder) == ALL_CHANGED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody with fewer rights and back")
def test_where_it_may_not_write_git_opens_the_folders(repository: Repository, folder: Path, changed: TreeId) -> None:
    for path in [repository.root, *repository.root.rglob("*")]:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    for parent in repository.root.parents:
        if parent.owner() == "root" and "pytest" in str(parent):
            parent.chmod(0o755)
    os.seteuid(65534)
    try:
        (folder / "src").chmod(0o500)
        assert repository.worktrees.follow_tree(ALICE, changed) == ()
        assert files_in(folder) == ALL_CHANGED
    finally:
        os.seteuid(0)


def hard_linked(file: Path, outside: Path) -> None:
    file.unlink()
    os.link(outside, file)


def read_only(file: Path, outside: Path) -> None:
    file.chmod(0o444)


def executable(file: Path, outside: Path) -> None:
    file.chmod(0o755)


def a_pipe(file: Path, outside: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_link(file: Path, outside: Path) -> None:
    file.unlink()
    file.symlink_to(outside)


@pytest.mark.hostile("G11")
@pytest.mark.parametrize("made", [hard_linked, read_only, executable, a_pipe, a_link])
def test_a_file_that_is_not_only_what_git_knows_is_replaced_and_not_written_to(
    repository: Repository, folder: Path, changed: TreeId, tmp_path: Path, made: Callable[[Path, Path], None]
) -> None:
    write_files(tmp_path, {"outside.txt": "canary\n"})
    made(folder / "src/a.txt", tmp_path / "outside.txt")
    repository.worktrees.follow_tree(ALICE, changed)
    assert (tmp_path / "outside.txt").read_text() == "canary\n"
    assert files_in(folder) == ALL_CHANGED
    assert_shown(repository, changed)


@pytest.mark.parametrize("half", ["", "one\nT", "one\nTWO\nthree\nfour\nfive\n"])
def test_a_file_that_was_half_written_is_written_again_by_whoever_follows_next(
    repository: Repository, folder: Path, changed: TreeId, half: str
) -> None:
    (folder / "src/a.txt").write_text(half)
    repository.worktrees.follow_tree(ALICE, changed)
    assert files_in(folder) == ALL_CHANGED
    assert_shown(repository, changed)


def test_two_processes_take_turns(repository: Repository, folder: Path, changed: TreeId) -> None:
    base, other = base_tree(repository), open_repository(repository.root, os.environ)
    for tree, whose in [(changed, other), (base, repository), (changed, repository), (base, other), (changed, other)]:
        whose.worktrees.follow_tree(ALICE, tree)
        assert_shown(repository, tree)
    other.close()


def test_an_edit_of_the_same_size_in_the_same_moment_is_seen_after_following(
    repository: Repository, folder: Path
) -> None:
    trees = [tree_with(repository, {"src/a.txt": f"{letter}\n"}) for letter in "abcdef"]
    for tree, letter in zip(trees, "abcdef", strict=True):
        repository.worktrees.follow_tree(ALICE, tree)
        (folder / "src/a.txt").write_text("X\n")
        (folder / "README.md").write_text("HELLO\n")
        repository.worktrees.show_tree(ALICE, tree)
        assert ((folder / "src/a.txt").read_text(), (folder / "README.md").read_text()) == (f"{letter}\n", "hello\n")


def test_an_older_edit_stays_visible_when_the_index_is_written_again(repository: Repository, folder: Path) -> None:
    index = repository.git_dir / "worktrees/alice/index"
    written = index.stat()
    (folder / "README.md").write_text("HELLO\n")
    # As if it had happened in the moment in which the index was written.
    os.utime(folder / "README.md", ns=(written.st_mtime_ns, written.st_mtime_ns))
    repository.worktrees.follow_tree(ALICE, tree_with(repository, {"src/a.txt": "a\n"}))
    assert index.stat().st_mtime_ns == written.st_mtime_ns


# --- an index that somebody else has changed ---------------------------------------------------------


def assume_unchanged(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "README.md")


def skip_worktree(folder: Path) -> None:
    git(folder, "update-index", "--skip-worktree", "README.md")


def version_4(folder: Path) -> None:
    git(folder, "update-index", "--index-version", "4")


def split(folder: Path) -> None:
    git(folder, "update-index", "--split-index")


def staged(folder: Path) -> None:
    write_files(folder, {"staged.txt": "staged\n"})
    git(folder, "add", "staged.txt")


def intended(folder: Path) -> None:
    write_files(folder, {"staged.txt": "staged\n"})
    git(folder, "add", "--intent-to-add", "staged.txt")


def conflicting(folder: Path) -> None:
    blob = git(folder, "rev-parse", "HEAD:README.md")
    stages = "".join(f"100644 {blob} {stage}\tREADME.md\n" for stage in (1, 2, 3))
    git(folder, "update-index", "--index-info", stdin=f"0 {'0' * 40}\tREADME.md\n{stages}")


def with_untracked_cache(folder: Path) -> None:
    git(folder, "update-index", "--force-untracked-cache")
    git(folder, "status")


def emptied(folder: Path) -> None:
    git(folder, "read-tree", "--empty")


def damaged(folder: Path) -> None:
    index = Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index"))
    content = bytearray(index.read_bytes())
    content[60] ^= 1
    index.write_bytes(content)


def refreshed(folder: Path) -> None:
    git(folder, "status")


@pytest.mark.parametrize("how", ["follow_tree", "show_tree"])
@pytest.mark.parametrize(
    "change",
    [
        *(assume_unchanged, skip_worktree, version_4, split, staged, intended, conflicting),
        *(with_untracked_cache, emptied, damaged, refreshed),
    ],
)
def test_whatever_a_person_did_to_the_index_the_tree_is_shown(
    repository: Repository, folder: Path, changed: TreeId, change: Callable[[Path], None], how: str
) -> None:
    change(folder)
    getattr(repository.worktrees, how)(ALICE, changed)
    repository.worktrees.clear_strays(ALICE, changed)
    assert files_in(folder) == ALL_CHANGED
    assert_shown(repository, changed)


@pytest.mark.hostile("G09")
@pytest.mark.parametrize("hide", [assume_unchanged, skip_worktree])
def test_an_index_that_tells_git_not_to_look_hides_nothing(
    repository: Repository, folder: Path, hide: Callable[[Path], None]
) -> None:
    hide(folder)
    (folder / "README.md").write_text("hidden\n")
    assert git(folder, "status", "--porcelain") == ""
    assert repository.worktrees.status(ALICE, base_tree(repository)).strays == ("README.md",)
    repository.worktrees.show_tree(ALICE, base_tree(repository))
    assert files_in(folder) == BASE


# --- dying -------------------------------------------------------------------------------------------

WORK = """
import os, signal, sys
from pathlib import Path
from aop.adapters.git.repository import open_repository

git = open_repository(Path(sys.argv[1]), os.environ)
base = git.objects.tree_of(git.branches.head("main"))
patch, paths, left = sys.argv[2].encode(), set(sys.argv[3].split()), int(sys.argv[4])
TOUCHING = ("open", "os.", "shutil.", "subprocess.")

def die(event, arguments):
    global left
    if event.startswith(TOUCHING):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
tree = git.objects.apply_to_tree(base, patch, paths=paths)
git.branches.keep("alice", tree)
git.worktrees.follow_tree("alice", tree)
print("done")
"""


@pytest.mark.slow
@pytest.mark.hostile("S30")
def test_killed_at_any_touch_of_the_world_the_next_call_finishes_the_work(tmp_path: Path) -> None:
    patch, paths = CREATE_C + CHANGE_A + DELETE_B, "src/c.txt src/a.txt src/deep/b.txt"
    finished, number = False, -2
    repository = make_repository(tmp_path / "project")
    folder, base = start(repository), base_tree(repository)
    while not finished:
        # Every third touch; `make soak` breaks every call that writes.
        number += 3
        done = subprocess.run(
            [sys.executable, "-c", WORK, repository.root, patch, paths, str(number)],
            capture_output=True,
            timeout=300,
            check=False,
        )
        finished = done.returncode == 0
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        tree = patched(repository, base, patch)
        repository.branches.keep(ALICE, tree)
        assert repository.worktrees.follow_tree(ALICE, tree) == (), number
        assert files_in(folder) == ALL_CHANGED, number
        assert_shown(repository, tree)
        repository.worktrees.show_tree(ALICE, base)
        assert head(repository, "alice") == head(repository)
    assert number > 40
    repository.close()
