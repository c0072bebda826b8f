"""Worktrees through git: made once, shown as a tree, compared with one, and swept when their makers are dead."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import BranchExists, Fault, PathOutOfBounds, WorktreeMissing
from aop.core.ids import FeatureId, TreeId
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

LONG_AGO = 946684800


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "project")


def quarantined(repository: Repository, feature_id: str = ALICE) -> dict[str, str]:
    return files_in(repository.root / ".aop/quarantine" / feature_id)


# --- making one --------------------------------------------------------------------------------------


@pytest.mark.req("AOP-019", "AOP-020")
def test_a_worktree_holds_the_branchs_files_at_its_place(repository: Repository) -> None:
    folder = start(repository)
    assert folder == repository.root / ".worktrees/alice"
    assert files_in(folder) == BASE
    assert git(folder, "status", "--porcelain", "--branch") == "## alice"


def test_a_worktree_lies_where_it_was_configured(repository: Repository) -> None:
    elsewhere = open_repository(repository.root, os.environ, worktrees="build/trees")
    elsewhere.exclude_runtime_files()
    assert start(elsewhere) == repository.root / "build/trees/alice"
    assert git(repository.root, "status", "--porcelain") == ""


def test_asking_again_changes_nothing(repository: Repository) -> None:
    folder = start(repository)
    tree = patched(repository, base_tree(repository), CREATE_C)
    repository.worktrees.show_tree(ALICE, tree)
    assert repository.worktrees.ensure(ALICE, ALICE) == folder
    assert files_in(folder) == {**BASE, "src/c.txt": "see\n"}


@pytest.mark.req("AOP-021")
def test_many_worktrees_are_made_at_once(repository: Repository) -> None:
    features = [FeatureId(f"f{number}") for number in range(8)]
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda name: start(repository, name), features * 2))
    assert made == [repository.root / ".worktrees" / name for name in features * 2]
    assert [files_in(folder) for folder in made] == [BASE] * 16
    assert [git(folder, "branch", "--show-current") for folder in made] == features * 2


@pytest.mark.req("AOP-021")
def test_many_processes_make_worktrees_at_once(repository: Repository) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom aop.adapters.git.repository import open_repository\n"
        "git = open_repository(Path(sys.argv[1]), os.environ)\n"
        "git.branches.create(sys.argv[2], git.branches.head('main'))\n"
        "print(git.worktrees.ensure(sys.argv[2], sys.argv[2]))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, repository.root, f"f{number % 6}"], stdout=subprocess.PIPE)
        for number in range(8)
    ]
    made = [Path(process.communicate(timeout=300)[0].decode().strip()) for process in started]
    assert made == [repository.root / ".worktrees" / f"f{number % 6}" for number in range(8)]
    assert [files_in(folder) for folder in made] == [BASE] * 8


def test_a_worktree_of_the_users_with_the_same_name_stays_his(repository: Repository, tmp_path: Path) -> None:
    git(repository.root, "worktree", "add", "--quiet", "-b", "his", str(tmp_path / "alice"))
    assert files_in(start(repository)) == BASE
    assert git(tmp_path / "alice", "branch", "--show-current") == "his"


def test_a_folder_that_stands_in_the_way_is_moved_aside(repository: Repository) -> None:
    write_files(repository.root, {".worktrees/alice/notes.txt": "mine\n"})
    assert files_in(start(repository)) == BASE
    assert quarantined(repository) == {"1/alice/notes.txt": "mine\n"}


def test_a_branch_that_a_person_has_checked_out_is_refused(repository: Repository) -> None:
    git(repository.root, "checkout", "--quiet", "-b", "alice")
    with pytest.raises(BranchExists) as refused:
        repository.worktrees.ensure(ALICE, ALICE)
    assert "already" in refused.value.message
    assert not (repository.root / ".worktrees/alice").exists()


def test_a_worktree_on_another_branch_is_put_back_on_its_own(repository: Repository) -> None:
    folder = start(repository)
    git(folder, "checkout", "--quiet", "-b", "wandered")
    repository.worktrees.ensure(ALICE, ALICE)
    assert git(folder, "branch", "--show-current") == "alice"


@pytest.mark.parametrize("left", ["nothing", "files", "no folder"])
def test_a_worktree_that_was_half_made_is_made_anew(repository: Repository, left: str) -> None:
    folder = start(repository)
    registration = repository.git_dir / "worktrees/alice"
    (registration / "locked").write_text("initializing")
    if left != "files":
        shutil.rmtree(folder)
    if left == "nothing":
        folder.mkdir()
    assert files_in(repository.worktrees.ensure(ALICE, ALICE)) == BASE
    assert git(folder, "status", "--porcelain", "--branch") == "## alice"


def test_a_first_checkout_that_was_cut_off_is_finished(repository: Repository) -> None:
    folder = start(repository)
    (repository.git_dir / "worktrees/alice/index").unlink()
    (folder / "README.md").unlink()
    (folder / "src/a.txt").write_text("one\ntw")
    repository.worktrees.ensure(ALICE, ALICE)
    assert files_in(folder) == BASE
    assert quarantined(repository) == {"1/src/a.txt": "one\ntw"}


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_a_repository_that_was_moved_or_copied_keeps_its_worktrees(
    repository: Repository, tmp_path: Path, how: object
) -> None:
    tree = patched(repository, base_tree(repository), CREATE_C)
    start(repository)
    repository.worktrees.show_tree(ALICE, tree)
    if how is shutil.copytree:
        shutil.copytree(repository.root, tmp_path / "new", symlinks=True)
    else:
        shutil.move(repository.root, tmp_path / "new")
    there = open_repository(tmp_path / "new", os.environ)
    folder = there.worktrees.ensure(ALICE, ALICE)
    there.worktrees.show_tree(ALICE, tree)
    assert folder == tmp_path / "new/.worktrees/alice"
    assert files_in(folder) == {**BASE, "src/c.txt": "see\n"}
    assert git(folder, "status", "--porcelain") == "A  src/c.txt"


def test_a_worktree_that_a_person_deleted_comes_back(repository: Repository) -> None:
    folder = start(repository)
    shutil.rmtree(folder)
    assert repository.worktrees.show_tree(ALICE, base_tree(repository)) == ()
    assert files_in(folder) == BASE
    shutil.rmtree(folder)
    git(repository.root, "worktree", "prune")
    assert files_in(repository.worktrees.ensure(ALICE, ALICE)) == BASE


def test_a_deleted_worktree_is_compared_as_an_empty_one(repository: Repository) -> None:
    shutil.rmtree(start(repository))
    assert repository.worktrees.status(ALICE, base_tree(repository)).strays == tuple(sorted(BASE))


def test_a_branch_that_is_only_at_a_remote_makes_no_worktree(repository: Repository) -> None:
    git(repository.root, "remote", "add", "origin", ".")
    git(repository.root, "update-ref", "refs/remotes/origin/alice", "main")
    config = (repository.git_dir / "config").read_bytes()
    with pytest.raises(Fault, match="no branch `alice`"):
        repository.worktrees.ensure(ALICE, ALICE)
    assert (repository.git_dir / "config").read_bytes() == config


def test_a_worktree_that_was_never_made_shows_nothing(repository: Repository) -> None:
    with pytest.raises(WorktreeMissing, match="no worktree of `alice`"):
        repository.worktrees.show_tree(ALICE, base_tree(repository))


@pytest.mark.parametrize("name", [".worktrees", ".aop"])
def test_a_link_in_place_of_a_folder_of_aop_is_refused(repository: Repository, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (repository.root / name).symlink_to(tmp_path / "outside")
    with pytest.raises(PathOutOfBounds):
        start(repository)
    assert list((tmp_path / "outside").iterdir()) == []


# --- showing a tree ----------------------------------------------------------------------------------


def test_a_tree_is_shown_whole_and_the_worktrees_index_holds_it(repository: Repository) -> None:
    folder = start(repository)
    tree = patched(repository, base_tree(repository), CREATE_C + CHANGE_A + DELETE_B)
    assert repository.worktrees.show_tree(ALICE, tree) == ()
    assert files_in(folder) == {
        "README.md": "hello\n",
        "src/a.txt": "one\nTWO\nthree\n",
        "src/c.txt": "see\n",
    }
    assert not (folder / "src/deep").exists()
    assert git(folder, "diff", "--cached", "--name-status").split("\n") == [
        "M\tsrc/a.txt",
        "A\tsrc/c.txt",
        "D\tsrc/deep/b.txt",
    ]
    assert git(folder, "write-tree") == tree
    repository.worktrees.show_tree(ALICE, base_tree(repository))
    assert files_in(folder) == BASE
    assert git(folder, "status", "--porcelain") == ""


def test_an_unchanged_file_is_not_written_again(repository: Repository) -> None:
    folder = start(repository)
    before = (folder / "README.md").stat()
    repository.worktrees.show_tree(ALICE, patched(repository, base_tree(repository), CREATE_C))
    after = (folder / "README.md").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_drift_is_undone(repository: Repository) -> None:
    folder = start(repository)
    (folder / "README.md").unlink()
    (folder / "src/a.txt").write_text("onX\ntwo\nthree\n")
    (folder / "src/deep/b.txt").chmod(0o755)
    assert repository.worktrees.show_tree(ALICE, base_tree(repository)) == ("src/a.txt",)
    assert files_in(folder) == BASE
    assert not os.access(folder / "src/deep/b.txt", os.X_OK)
    assert quarantined(repository) == {"1/src/a.txt": "onX\ntwo\nthree\n"}


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_file_that_was_not_written_to_its_end_is_written_again_and_is_nobodys_edit(
    repository: Repository, *, is_whole: bool
) -> None:
    folder = start(repository)
    (folder / "src/a.txt").write_text("one\ntw" if not is_whole else "one\ntwo\nthree\n")
    assert repository.worktrees.show_tree(ALICE, base_tree(repository)) == ()
    assert files_in(folder) == BASE


def test_an_edit_of_a_file_that_the_next_tree_has_no_more_or_otherwise_is_kept(repository: Repository) -> None:
    folder = start(repository)
    next_tree = tree_with(repository, {"src/a.txt": "other\n", "src/deep/b.txt": None})
    for name in ("src/a.txt", "src/deep/b.txt", "README.md"):
        (folder / name).write_text("mine\n")
    assert repository.worktrees.show_tree(ALICE, next_tree) == ("README.md", "src/a.txt", "src/deep/b.txt")
    kept = dict.fromkeys(("1/README.md", "1/src/a.txt", "1/src/deep/b.txt"), "mine\n")
    assert quarantined(repository) == kept
    assert repository.worktrees.discard_strays(ALICE, next_tree) == ()
    (folder / "README.md").write_text("a gate's\n")
    assert repository.worktrees.discard_strays(ALICE, next_tree) == ()
    assert quarantined(repository) == kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"x": "file\n"}, {"x": None, "x/y": "below\n"}),
        ({"x/y": "below\n", "x/z/w": "w\n"}, {"x": "file\n", "x/y": None, "x/z/w": None}),
    ],
    ids=["file to folder", "folder to file"],
)
def test_a_file_and_a_folder_change_places(
    repository: Repository, before: dict[str, str | None], after: dict[str, str | None]
) -> None:
    folder = start(repository)
    repository.worktrees.show_tree(ALICE, tree_with(repository, before))
    assert (
        repository.worktrees.show_tree(ALICE, tree_with(repository, {k: v for k, v in after.items() if v is not None}))
        == ()
    )
    assert files_in(folder) == {**BASE, **{k: v for k, v in after.items() if v is not None}}


@pytest.mark.hostile("D107")
def test_a_file_that_git_does_not_know_is_never_lost(repository: Repository) -> None:
    folder = start(repository)
    base = base_tree(repository)
    write_files(folder, {"src/c.txt": "a person's notes\n"})
    tree = patched(repository, base, CREATE_C)
    assert repository.worktrees.show_tree(ALICE, tree) == ("src/c.txt",)
    assert files_in(folder) == {**BASE, "src/c.txt": "see\n"}
    repository.worktrees.show_tree(ALICE, base)
    write_files(folder, {"src/c.txt/inner/deep.txt": "more notes\n"})
    assert repository.worktrees.show_tree(ALICE, tree) == ("src/c.txt",)
    assert quarantined(repository) == {
        "1/src/c.txt": "a person's notes\n",
        "2/src/c.txt/inner/deep.txt": "more notes\n",
    }


def test_untracked_files_below_a_folder_that_becomes_a_file_are_kept(repository: Repository) -> None:
    folder = start(repository)
    repository.worktrees.show_tree(ALICE, tree_with(repository, {"x/y": "y\n"}))
    write_files(folder, {"x/note": "note\n"})
    assert repository.worktrees.show_tree(ALICE, tree_with(repository, {"x": "x\n"})) == ("x",)
    assert quarantined(repository) == {"1/x/note": "note\n"}
    assert files_in(folder) == {**BASE, "x": "x\n"}


def test_a_tracked_file_replaced_by_a_folder_comes_back_and_the_folder_is_kept(repository: Repository) -> None:
    folder = start(repository)
    (folder / "README.md").unlink()
    write_files(folder, {"README.md/note": "note\n"})
    assert repository.worktrees.show_tree(ALICE, base_tree(repository)) == ("README.md",)
    assert files_in(folder) == BASE
    assert quarantined(repository) == {"1/README.md/note": "note\n"}


def test_a_file_that_already_is_what_the_tree_says_is_no_obstacle(repository: Repository) -> None:
    folder = start(repository)
    write_files(folder, {"src/c.txt": "see\n"})
    assert repository.worktrees.show_tree(ALICE, patched(repository, base_tree(repository), CREATE_C)) == ()
    assert not (repository.root / ".aop/quarantine").exists()


def test_an_edit_in_the_same_moment_and_of_the_same_size_is_seen(repository: Repository) -> None:
    folder = start(repository)
    for letter in "abcdefgh":
        tree = tree_with(repository, {"src/a.txt": f"{letter}\n"})
        repository.worktrees.show_tree(ALICE, tree)
        (folder / "src/a.txt").write_text("X\n")
        repository.worktrees.show_tree(ALICE, tree)
        assert (folder / "src/a.txt").read_text() == f"{letter}\n"


@pytest.mark.parametrize("content", [b"", b"garbage", b"DIRC" + b"\0" * 60], ids=["empty", "short", "broken"])
def test_an_index_that_cannot_be_read_is_made_anew(repository: Repository, content: bytes) -> None:
    folder = start(repository)
    (repository.git_dir / "worktrees/alice/index").write_bytes(content)
    (folder / "src/a.txt").write_text("drift\n")
    assert repository.worktrees.show_tree(ALICE, base_tree(repository)) == ("src/a.txt",)
    assert files_in(folder) == BASE
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.hostile("S30")
def test_lock_files_of_a_killed_git_are_in_nobodys_way(repository: Repository) -> None:
    folder = start(repository)
    (repository.git_dir / "worktrees/alice/index.lock").touch()
    repository.worktrees.show_tree(ALICE, patched(repository, base_tree(repository), CREATE_C))
    assert files_in(folder) == {**BASE, "src/c.txt": "see\n"}


@pytest.mark.parametrize("attributes", ["* text eol=crlf\n", "* ident\n", "* working-tree-encoding=UTF-16\n"])
@pytest.mark.parametrize("place", ["tree", "worktree", "repository"])
def test_the_files_are_the_bytes_of_the_tree(repository: Repository, attributes: str, place: str) -> None:
    folder = start(repository)
    git(repository.root, "config", "core.autocrlf", "true")
    content = "$Id$\nplain\r\nmixed\n"
    tree = tree_with(repository, {"t": content} | ({".gitattributes": attributes} if place == "tree" else {}))
    target = {"worktree": folder / ".gitattributes", "repository": repository.git_dir / "info/attributes"}
    if place != "tree":
        target[place].write_text(attributes)
    repository.worktrees.show_tree(ALICE, tree)
    assert (folder / "t").read_bytes() == content.encode()
    assert "t" not in repository.worktrees.status(ALICE, tree).strays


def test_submodules_of_the_base_are_empty_folders(repository: Repository, tmp_path: Path) -> None:
    make_repository(tmp_path / "library")
    git(repository.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"))
    git(repository.root, "commit", "--quiet", "-m", "submodule")
    folder = start(repository)
    assert list((folder / "library").iterdir()) == []
    assert git(folder, "status", "--porcelain") == ""
    assert repository.worktrees.status(ALICE, base_tree(repository)).strays == ()


# --- comparing ---------------------------------------------------------------------------------------


def test_the_status_tells_accepted_changes_from_drift_and_strays(repository: Repository) -> None:
    folder = start(repository)
    tree = patched(repository, base_tree(repository), CREATE_C + CHANGE_A + DELETE_B)
    repository.worktrees.show_tree(ALICE, tree)
    (folder / "src/c.txt").write_text("drift\n")
    (folder / "README.md").unlink()
    write_files(folder, {"new dir/é.txt": "", 'odd"\t': ""})
    os.utime(folder / "src/a.txt", (LONG_AGO, LONG_AGO))
    status = repository.worktrees.status(ALICE, tree)
    assert status.porcelain == (
        ' D README.md\nM  src/a.txt\nAM src/c.txt\nD  src/deep/b.txt\n?? "new dir/é.txt"\n?? "odd\\"\\t"\n'
    )
    assert status.strays == ("README.md", "new dir/é.txt", 'odd"\t', "src/c.txt")
    assert status.porcelain.rstrip("\n") == git(
        folder, "-c", "core.quotePath=false", "status", "--porcelain", "-uall", "--no-renames"
    )


def test_the_status_writes_nothing(repository: Repository) -> None:
    folder = start(repository)
    os.utime(folder / "src/a.txt", (LONG_AGO, LONG_AGO))
    index = repository.git_dir / "worktrees/alice/index"
    before = index.read_bytes(), index.stat()
    repository.worktrees.status(ALICE, patched(repository, base_tree(repository), CREATE_C))
    assert (index.read_bytes(), index.stat()) == before


IGNORING = {".gitignore": "*.log\nbuild/\n", "src/.gitignore": "!keep.log\ngenerated\n"}


@pytest.fixture
def ignoring(repository: Repository) -> TreeId:
    """Show a tree with ignore files, and some ignored files beside it."""
    start(repository)
    tree = tree_with(repository, {**IGNORING})
    repository.worktrees.show_tree(ALICE, tree)
    write_files(
        repository.worktrees.path(ALICE),
        {"x.log": "", "build/out/x.o": "", "src/generated": "", ".pytest_cache/.gitignore": "*\n", "my.excluded": ""},
    )
    (repository.git_dir / "info/exclude").write_text("*.excluded\n")
    return tree


def test_ignored_files_are_no_strays(repository: Repository, ignoring: TreeId) -> None:
    assert repository.worktrees.status(ALICE, ignoring).strays == ()
    assert repository.worktrees.clear_strays(ALICE, ignoring) == ()
    write_files(repository.worktrees.path(ALICE), {"src/keep.log": "", "src/build.txt": ""})
    assert repository.worktrees.status(ALICE, ignoring).strays == ("src/build.txt", "src/keep.log")


@pytest.mark.parametrize(
    ("planted", "hidden"),
    [
        ({"src/deep/.gitignore": "*\n", "src/deep/evil.py": ""}, ("src/deep/.gitignore", "src/deep/evil.py")),
        ({".gitignore": "*\n", "evil/evil.py": ""}, (".gitignore", "evil/evil.py")),
        ({"evil/.gitignore": "*\n", "evil/a/b.py": "", "evil/x.log": ""}, ("evil/.gitignore", "evil/a/b.py")),
        ({"src/.gitignore": "evil/\n", "src/evil/b.py": ""}, ("src/.gitignore", "src/evil/b.py")),
        ({".gitignore": "!x.log\n"}, (".gitignore",)),
    ],
)
def test_an_ignore_file_that_was_planted_hides_nothing(
    repository: Repository, ignoring: TreeId, planted: dict[str, str], hidden: tuple[str, ...]
) -> None:
    write_files(repository.worktrees.path(ALICE), planted)
    assert repository.worktrees.status(ALICE, ignoring).strays == hidden


def test_strays_go_to_quarantine_and_ignored_files_stay(repository: Repository, ignoring: TreeId) -> None:
    folder = repository.worktrees.path(ALICE)
    before = files_in(folder)
    write_files(folder, {"stray.txt": "stray\n", "empty/after/this.txt": "this\n"})
    (folder / "planted").symlink_to("/etc")
    assert repository.worktrees.clear_strays(ALICE, ignoring) == ("empty/after/this.txt", "planted", "stray.txt")
    assert files_in(folder) == before
    assert not (folder / "empty").exists()
    assert quarantined(repository) == {
        "1/empty/after/this.txt": "this\n",
        "1/planted": "-> /etc",
        "1/stray.txt": "stray\n",
    }


def test_a_repository_inside_the_worktree_is_one_stray(repository: Repository) -> None:
    folder = start(repository)
    for clear in (repository.worktrees.clear_strays, repository.worktrees.discard_strays):
        git(folder, "init", "--quiet", "inner")
        write_files(folder, {"inner/x": "x\n"})
        assert clear(ALICE, base_tree(repository)) == ("inner/",)
        assert files_in(folder) == BASE
        assert not (folder / "inner").exists()
    assert quarantined(repository) == {"1/inner/x": "x\n"}


def test_discarded_strays_are_gone(repository: Repository, ignoring: TreeId, tmp_path: Path) -> None:
    folder = repository.worktrees.path(ALICE)
    before = files_in(folder)
    write_files(tmp_path / "outside", {"kept.txt": "kept\n"})
    write_files(folder, {"left/behind.txt": "x\n"})
    (folder / "link").symlink_to(tmp_path / "outside")
    assert repository.worktrees.discard_strays(ALICE, ignoring) == ("left/behind.txt", "link")
    assert files_in(folder) == before
    assert not (repository.root / ".aop/quarantine").exists()
    assert files_in(tmp_path / "outside") == {"kept.txt": "kept\n"}


# --- scratch checkouts -------------------------------------------------------------------------------


def test_a_scratch_checkout_holds_the_commit_and_is_gone_afterwards(repository: Repository) -> None:
    with repository.worktrees.scratch(head(repository)) as folder:
        assert folder.parent == repository.root / ".aop/scratch"
        assert files_in(folder) == BASE
        assert git(folder, "rev-parse", "HEAD") == head(repository)
        assert git(folder, "status", "--porcelain", "--branch") == "## HEAD (no branch)"
    assert list((repository.root / ".aop/scratch").iterdir()) == []
    assert not (repository.git_dir / "worktrees").exists()


def test_a_scratch_checkout_is_gone_also_after_a_failure_and_with_locked_folders(repository: Repository) -> None:
    def fail_inside() -> None:
        with repository.worktrees.scratch(head(repository)) as folder:
            (folder / ".git").unlink()
            (folder / "src").chmod(0)
            raise LookupError

    with pytest.raises(LookupError):
        fail_inside()
    assert list((repository.root / ".aop/scratch").iterdir()) == []
    assert not (repository.git_dir / "worktrees").exists()


def test_scratch_checkouts_of_one_commit_stand_side_by_side(repository: Repository) -> None:
    commit = head(repository)
    with repository.worktrees.scratch(commit) as one, repository.worktrees.scratch(commit) as two:
        (one / "README.md").write_text("changed\n")
        assert files_in(two) == BASE


@pytest.mark.hostile("S35")
def test_what_a_killed_process_left_is_swept_and_nothing_else(repository: Repository) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom aop.adapters.git.repository import open_repository\n"
        "git = open_repository(Path(sys.argv[1]), os.environ)\n"
        "with git.worktrees.scratch(git.branches.head('main')): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, repository.root], check=False, timeout=300)
    scratch = repository.root / ".aop/scratch"
    (left,) = scratch.iterdir()
    with repository.worktrees.scratch(head(repository)) as alive:
        write_files(repository.root, {".aop/tmp/notes/x": "", ".aop/tmp/1-0123456789abcdef/index": ""})
        old = [alive, left, *(repository.root / ".aop/tmp").iterdir()]
        for folder in old:
            os.utime(folder, (LONG_AGO, LONG_AGO))
        with repository.worktrees.scratch(head(repository)) as young:
            repository.sweep_leftovers()
            assert sorted(scratch.iterdir()) == sorted([alive, young])
            assert files_in(alive) == files_in(young) == BASE
            registered = [path.name for path in sorted((repository.git_dir / "worktrees").iterdir())]
            assert registered == sorted([alive.name, young.name])
    assert [path.name for path in (repository.root / ".aop/tmp").iterdir()] == ["notes"]


def test_a_registration_that_a_killed_git_left_before_it_named_a_folder_is_swept(repository: Repository) -> None:
    start(repository)
    registration = repository.git_dir / "worktrees/1-0123456789abcdef"
    registration.mkdir()
    (registration / "locked").write_text("initializing")
    (registration / "gitdir").touch()
    repository.sweep_leftovers()
    assert [path.name for path in (repository.git_dir / "worktrees").iterdir()] == ["alice"]


def test_sweeping_a_repository_that_was_never_used_makes_nothing(repository: Repository) -> None:
    repository.sweep_leftovers()
    assert not (repository.root / ".aop").exists()
