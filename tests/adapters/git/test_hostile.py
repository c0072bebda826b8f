"""Git among strangers: planted links, rewritten settings, hooks, lock files of the dead, and processes that die."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault, PatchDoesNotApply
from aop.core.ids import ObjectId, TreeId
from aop.kernel.ports.git import MergedTree, Proposal
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

NOON = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)
LONG_AGO = 946684800
OUTSIDE = {"a.txt": "canary\n", "b.txt": "canary\n", "c.txt": "canary\n"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "project")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    write_files(tmp_path / "outside", OUTSIDE)
    return tmp_path / "outside"


# --- links -------------------------------------------------------------------------------------------


def link_for_file(folder: Path, outside: Path) -> None:
    (folder / "src/a.txt").unlink()
    (folder / "src/a.txt").symlink_to(outside / "a.txt")


def link_for_folder(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder / "src")
    (folder / "src").symlink_to(outside)


def link_for_inner_folder(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder / "src/deep")
    (folder / "src/deep").symlink_to(outside)


def link_to_the_folder_itself_moved_away(folder: Path, outside: Path) -> None:
    (folder / "src").rename(folder / "moved")
    (folder / "src").symlink_to("moved")


def link_for_new_file(folder: Path, outside: Path) -> None:
    (folder / "src/c.txt").symlink_to(outside / "c.txt")


def link_for_readme_and_loop(folder: Path, outside: Path) -> None:
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("README.md")


def pipe_for_file(folder: Path, outside: Path) -> None:
    (folder / "src/a.txt").unlink()
    os.mkfifo(folder / "src/a.txt")
    os.mkfifo(folder / "src/c.txt")


@pytest.mark.hostile("D076", "G11")
@pytest.mark.parametrize("patch", [b"", CREATE_C + CHANGE_A + DELETE_B], ids=["same tree", "next tree"])
@pytest.mark.parametrize(
    "plant",
    [
        link_for_file,
        link_for_folder,
        link_for_inner_folder,
        link_to_the_folder_itself_moved_away,
        link_for_new_file,
        link_for_readme_and_loop,
        pipe_for_file,
    ],
)
def test_nothing_is_written_or_removed_through_a_planted_link(
    repository: Repository, outside: Path, plant: Callable[[Path, Path], None], patch: bytes
) -> None:
    folder = start(repository)
    plant(folder, outside)
    base = base_tree(repository)
    tree = patched(repository, base, patch) if patch else base
    repository.worktrees.show_tree(ALICE, tree)
    repository.worktrees.clear_strays(ALICE, tree)
    after = {"README.md": "hello\n", "src/a.txt": "one\nTWO\nthree\n", "src/c.txt": "see\n"}
    assert files_in(outside) == OUTSIDE
    pipe = folder / "src/c.txt"
    if not patch and pipe.is_fifo():
        pipe.unlink()
    assert files_in(folder) == (after if patch else BASE)
    assert not (folder / "src").is_symlink()


def test_a_worktree_that_became_a_link_is_made_a_folder_again(repository: Repository, outside: Path) -> None:
    folder = start(repository)
    shutil.rmtree(folder)
    folder.symlink_to(outside)
    repository.worktrees.show_tree(ALICE, base_tree(repository))
    assert files_in(outside) == OUTSIDE
    assert (folder.is_symlink(), files_in(folder)) == (False, BASE)


@pytest.mark.hostile("D074", "D075")
@pytest.mark.parametrize("target", ["outside", "src"])
def test_a_patch_does_not_apply_beneath_a_tracked_link(repository: Repository, outside: Path, target: str) -> None:
    (repository.root / "link").symlink_to(outside if target == "outside" else "src")
    git(repository.root, "add", "link")
    git(repository.root, "commit", "--quiet", "-m", "link")
    with pytest.raises(PatchDoesNotApply, match="beyond a symbolic link"):
        patched(repository, base_tree(repository), CREATE_C.replace(b"src/c.txt", b"link/new.txt"))
    with pytest.raises(PatchDoesNotApply):
        patched(repository, base_tree(repository), CHANGE_A.replace(b"src/a.txt", b"link/a.txt"))


def test_a_tracked_link_is_shown_as_a_link(repository: Repository, outside: Path) -> None:
    (repository.root / "link").symlink_to(outside)
    git(repository.root, "add", "link")
    git(repository.root, "commit", "--quiet", "-m", "link")
    folder = start(repository)
    assert files_in(folder) == {**BASE, "link": f"-> {outside}"}
    assert repository.worktrees.show_tree(ALICE, tree_with(repository, {"link": None, "link/a.txt": "a\n"})) == ()
    assert files_in(folder) == {**BASE, "link/a.txt": "a\n"}
    assert files_in(outside) == OUTSIDE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody with fewer rights and back")
def test_folders_that_a_program_locked_up_are_opened_again(repository: Repository) -> None:
    folder = start(repository)
    for path in [repository.root, *repository.root.rglob("*")]:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    for parent in repository.root.parents:
        if parent.owner() == "root" and "pytest" in str(parent):
            parent.chmod(0o755)
    os.seteuid(65534)
    try:
        (folder / "src/a.txt").write_text("drift\n")
        write_files(folder, {"src/c.txt": "unreadable\n"})
        (folder / "src/c.txt").chmod(0)
        (folder / "README.md").chmod(0)
        (folder / "src/deep").chmod(0o555)
        (folder / "src").chmod(0)
        tree = patched(repository, base_tree(repository), CREATE_C + DELETE_B)
        assert repository.worktrees.status(ALICE, tree).strays == (
            "README.md",
            "src/a.txt",
            "src/c.txt",
            "src/deep/b.txt",
        )
        (folder / "src").chmod(0)
        # Edits of tracked files are kept aside too, and what cannot be read counts as one.
        assert repository.worktrees.show_tree(ALICE, tree) == ("README.md", "src/a.txt", "src/c.txt")
        assert files_in(folder) == {"README.md": "hello\n", "src/a.txt": "one\ntwo\nthree\n", "src/c.txt": "see\n"}
        with repository.worktrees.scratch(head(repository)) as scratch:
            (scratch / "src").chmod(0o500)
        assert not scratch.exists()
    finally:
        os.seteuid(0)


# --- programs that must not run ----------------------------------------------------------------------


def everything(repository: Repository) -> None:
    """Use every operation once."""
    base_commit, base = head(repository), base_tree(repository)
    folder = start(repository)
    tree = patched(repository, base, CREATE_C + CHANGE_A)
    (folder / "README.md").write_text("drift\n")
    write_files(folder, {"stray.txt": "x\n"})
    repository.worktrees.status(ALICE, tree)
    repository.worktrees.show_tree(ALICE, tree)
    repository.worktrees.clear_strays(ALICE, tree)
    repository.worktrees.discard_strays(ALICE, tree)
    repository.branches.keep(ALICE, tree)
    repository.objects.changes(base, tree)
    repository.objects.diff(base, tree)
    repository.objects.diff_stat(base, tree)
    theirs = repository.objects.commit(tree, [base_commit], "theirs", when=NOON)
    ours = repository.objects.commit(patched(repository, base, DELETE_B), [base_commit], "ours", when=NOON)
    assert isinstance(repository.merges.merge(ours, Proposal(commit=theirs)), MergedTree)
    with repository.worktrees.scratch(theirs):
        pass
    assert repository.branches.move("main", to=theirs, old=base_commit)
    repository.worktrees.checkout_behind("main", old=base_commit, new=theirs)
    repository.objects.is_ancestor(base_commit, theirs)
    repository.sweep_leftovers()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return a program that leaves a file beside itself whenever somebody runs it."""
    program = tmp_path / "canary.sh"
    program.write_text(f'#!/bin/sh\necho ran "$0" >> {tmp_path}/sang\ncat 2>/dev/null\nexit 0\n')
    program.chmod(0o755)
    return program


@pytest.mark.hostile("M07", "G10")
def test_no_hook_runs(repository: Repository, canary: Path) -> None:
    hooks = repository.git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ["reference-transaction", "post-checkout", "post-index-change", "pre-commit", "post-merge"]:
        shutil.copy(canary, hooks / name)
    everything(repository)
    assert not (canary.parent / "sang").exists()
    git(repository.root, "update-ref", "refs/heads/proof", "main")
    assert (canary.parent / "sang").exists()


SETTINGS = [
    "core.hooksPath",
    "core.fsmonitor",
    "core.sshCommand",
    "core.editor",
    "core.pager",
    "core.askPass",
    "gpg.program",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "credential.helper",
]


def rewrite_config(git_dir: Path, canary: Path) -> None:
    for name in SETTINGS:
        value = canary.parent if name == "core.hooksPath" else canary
        git(git_dir.parent, f"--git-dir={git_dir}", "config", name, str(value))
    for name in ["commit.gpgSign", "filter.evil.required", "extensions.worktreeConfig"]:
        git(git_dir.parent, f"--git-dir={git_dir}", "config", name, "true")
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text("* filter=evil diff=evil merge=evil\n")


@pytest.mark.hostile("G09")
def test_no_program_that_the_repositorys_settings_name_runs(repository: Repository, canary: Path) -> None:
    rewrite_config(repository.git_dir, canary)
    everything(repository)
    assert not (canary.parent / "sang").exists()
    subprocess.run(["git", "diff", "main", "alice"], cwd=repository.root, check=False, capture_output=True, timeout=300)
    assert (canary.parent / "sang").exists()


@pytest.mark.hostile("G09")
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_worktree_that_claims_another_repository_is_not_believed(
    repository: Repository, tmp_path: Path, canary: Path, kind: str
) -> None:
    folder = start(repository)
    expected = (folder / ".git").read_bytes()
    evil = make_repository(tmp_path / "evil")
    rewrite_config(evil.git_dir, canary)
    (canary.parent / "sang").unlink(missing_ok=True)
    (folder / ".git").unlink()
    if kind == "file":
        (folder / ".git").write_text(f"gitdir: {evil.git_dir}\n")
    elif kind == "folder":
        shutil.copytree(evil.git_dir, folder / ".git")
    else:
        (folder / ".git").symlink_to(evil.git_dir)
    tree = patched(repository, base_tree(repository), CREATE_C)
    assert repository.worktrees.status(ALICE, tree).strays == ("src/c.txt",)
    repository.worktrees.show_tree(ALICE, tree)
    assert not (canary.parent / "sang").exists()
    assert (folder / ".git").read_bytes() == expected
    assert git(folder, "status", "--porcelain") == "A  src/c.txt"


@pytest.mark.hostile("G09")
def test_a_repository_planted_in_place_of_a_submodule_runs_nothing(
    repository: Repository, tmp_path: Path, canary: Path
) -> None:
    library = make_repository(tmp_path / "library")
    git(repository.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root))
    git(repository.root, "commit", "--quiet", "-m", "submodule")
    folder = start(repository)
    shutil.copytree(library.git_dir, folder / "library/.git")
    rewrite_config(folder / "library/.git", canary)
    (canary.parent / "sang").unlink(missing_ok=True)
    everything_else = base_tree(repository)
    repository.worktrees.status(ALICE, everything_else)
    repository.worktrees.show_tree(ALICE, everything_else)
    repository.worktrees.clear_strays(ALICE, everything_else)
    assert not (canary.parent / "sang").exists()


@pytest.mark.hostile("G43")
def test_a_git_in_the_worktree_is_not_run(repository: Repository, canary: Path) -> None:
    folder = start(repository)
    shutil.copy(canary, folder / "git")
    shutil.copy(canary, repository.root / "git")
    opened = open_repository(repository.root, {"PATH": f".::{os.environ['PATH']}"})
    opened.worktrees.status(ALICE, base_tree(opened))
    assert not (canary.parent / "sang").exists()


@pytest.mark.hostile("G13")
def test_replaced_objects_and_grafts_change_nothing(repository: Repository) -> None:
    old = head(repository)
    git(repository.root, "commit", "--quiet", "--allow-empty", "-m", "next")
    new = head(repository)
    blob = git(repository.root, "rev-parse", "main:README.md")
    other = git(repository.root, "hash-object", "-w", "--stdin", stdin="evil\n")
    git(repository.root, "replace", blob, other)
    (repository.git_dir / "info").mkdir(exist_ok=True)
    (repository.git_dir / "info/grafts").write_text(f"{new}\n")
    assert repository.objects.blob(ObjectId(blob)) == b"hello\n"
    assert repository.objects.is_ancestor(old, new)


# --- lock files --------------------------------------------------------------------------------------


def leave_lock(repository: Repository, ref: str, *, noted: bool) -> Path:
    """Leave what a git leaves that was killed while it wrote a ref."""
    lock = repository.git_dir / f"{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    for path in (lock, repository.git_dir / "HEAD.lock"):
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))
    if noted:
        write_files(repository.root, {".aop/locks/refs": ref})
    else:
        (repository.git_dir / "HEAD.lock").unlink()
    return lock


@pytest.mark.hostile("S30")
@pytest.mark.parametrize("noted", ["refs/heads/main", "refs/aop/features/alice"])
def test_the_lock_of_a_ref_that_a_dead_aop_left_is_removed(repository: Repository, noted: str) -> None:
    lock = leave_lock(repository, noted, noted=True)
    old = head(repository)
    new = repository.objects.commit(base_tree(repository), [old], "x", when=NOON)
    assert repository.branches.move("main", to=new, old=old)
    repository.branches.keep(ALICE, base_tree(repository))
    assert not lock.exists()
    assert (repository.root / ".aop/locks/refs").read_bytes() == b""


@pytest.mark.hostile("S30")
def test_the_lock_of_somebody_else_is_left_alone_and_named(repository: Repository) -> None:
    lock = leave_lock(repository, "refs/heads/main", noted=False)
    old = head(repository)
    new = repository.objects.commit(base_tree(repository), [old], "x", when=NOON)
    with pytest.raises(Fault, match=r"refs/heads/main\.lock"):
        repository.branches.move("main", to=new, old=old)
    assert lock.exists()


@pytest.mark.hostile("S30")
def test_the_lock_of_somebody_else_on_a_new_branch_is_left_alone_and_named(repository: Repository) -> None:
    lock = leave_lock(repository, "refs/heads/other", noted=False)
    with pytest.raises(Fault, match=r"refs/heads/other\.lock"):
        repository.branches.create("other", head(repository))
    assert lock.exists()


@pytest.mark.parametrize("note", ["../../canary", "/etc/canary", "refs/../../../canary", "refs/heads/x\0", "HEAD"])
def test_a_forged_note_removes_nothing(repository: Repository, tmp_path: Path, note: str) -> None:
    (tmp_path / "canary.lock").touch()
    (repository.git_dir / "HEAD.lock").touch()
    os.utime(repository.git_dir / "HEAD.lock", (LONG_AGO, LONG_AGO))
    write_files(repository.root, {".aop/locks/refs": note})
    repository.branches.keep(ALICE, base_tree(repository))
    assert (tmp_path / "canary.lock").exists()
    assert (repository.git_dir / "HEAD.lock").exists()


# --- dying -------------------------------------------------------------------------------------------

DIE_AT = """#!/bin/sh
{staying}
count=$(($(cat {counter}) + 1))
echo $count > {counter}
if [ $count = {number} ]; then {before} kill -9 $PPID; exit; fi
exec {git} "$@"
"""
WORK = """
import os, sys
from pathlib import Path
from aop.adapters.git.repository import open_repository
git = open_repository(Path(sys.argv[1]), os.environ)
git.branches.create("alice", git.branches.head("main"))
git.worktrees.ensure("alice", "alice")
git.branches.keep("alice", sys.argv[2])
git.worktrees.show_tree("alice", sys.argv[2])
print("done")
"""


def work_until(repository: Repository, tree: TreeId, number: int, *, after: bool) -> bool:
    """Run a process that dies at its nth git command; tell whether it got to its end before."""
    programs = repository.root.parent / f"programs-{number}-{after}"
    programs.mkdir()
    real = shutil.which("git")
    (programs / "counter").write_text("0")
    script = DIE_AT.format(
        counter=programs / "counter",
        number=number,
        git=real,
        before=f'{real} "$@";' if after else "",
        # A process that stays ends with its parent, and not before.
        staying=f'case "$*" in *--batch-command | *--stdin) exec {real} "$@";; esac' if after else "",
    )
    (programs / "git").write_text(script)
    (programs / "git").chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", WORK, repository.root, tree], env=environ, capture_output=True, timeout=300, check=False
    )
    return done.stdout == b"done\n"


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_git_command_the_next_call_finishes_the_work(tmp_path: Path, *, after: bool) -> None:
    finished = False
    number = 0
    while not finished:
        number += 1
        repository = make_repository(tmp_path / f"project{number}")
        tree = patched(repository, base_tree(repository), CREATE_C + CHANGE_A + DELETE_B)
        finished = work_until(repository, tree, number, after=after)
        repository.branches.create(ALICE, head(repository))
        folder = repository.worktrees.ensure(ALICE, ALICE)
        repository.branches.keep(ALICE, tree)
        assert repository.worktrees.show_tree(ALICE, tree) == ()
        expected = {"README.md": "hello\n", "src/a.txt": "one\nTWO\nthree\n", "src/c.txt": "see\n"}
        assert files_in(folder) == expected, number
        assert git(folder, "write-tree") == tree
        assert git(folder, "status", "--porcelain", "--branch").splitlines()[0] == "## alice"
    assert number > (6 if after else 8)
