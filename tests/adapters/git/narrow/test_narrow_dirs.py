"""Narrow git directories: exactly what a worktree and the base branch reach, however the repository changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import FeatureId
from tests.adapters.git.repositories import ALICE, CHANGE_A, git, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return with_feature(make_repository(tmp_path / "repo"))


def with_feature(repository: Repository) -> Repository:
    """Give a repository a feature with an accepted change."""
    head = repository.branches.head("main")
    assert head is not None
    repository.branches.create("alice", head)
    repository.worktrees.ensure(ALICE, "alice")
    tree = repository.objects.apply_to_tree(repository.objects.tree_of(head), CHANGE_A, paths={"src/a.txt"})
    repository.worktrees.show_tree(ALICE, tree)
    return repository


def commit(repository: Repository, text: str) -> None:
    (repository.root / "README.md").write_text(text)
    git(repository.root, "commit", "-qam", text)


def listed(repository: Repository, *words: str) -> list[str]:
    """Return the lines that git prints with the narrow git directory of the feature."""
    words = words or ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    with repository.narrow.shown(repository.worktrees.path(ALICE), "main") as shown:
        assert shown is not None
        own = f"--git-dir={shown}/worktrees/alice"
        done = subprocess.run(["git", own, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def reached(repository: Repository, *names: str) -> list[str]:
    """Return what the base branch and the feature reach, as the repository itself has it."""
    worktree = repository.worktrees.registered(repository.worktrees.path(ALICE))
    assert worktree is not None
    out = git(repository.root, "rev-list", "--objects", "main", "alice", worktree.tree, *names)
    return sorted(line.partition(" ")[0] for line in out.splitlines())


def history(repository: Repository) -> Path:
    (folder,) = (repository.root / ".aop" / "history").iterdir()
    return folder


def rewrite_base(repository: Repository) -> None:
    commit(repository, "A secret that is taken back")
    listed(repository)
    git(repository.root, "reset", "-q", "--hard", "main~1")


def truncate_a_pack(repository: Repository) -> None:
    pack = next((history(repository) / "objects" / "pack").glob("*.pack"))
    pack.chmod(0o644)
    pack.write_bytes(b"")


def leave_another_pack(repository: Repository) -> None:
    stray = git(repository.root, "hash-object", "-w", "--stdin", stdin="a stray")
    git(repository.root, "pack-objects", "-q", f"{history(repository)}/objects/pack/pack", stdin=f"{stray}\n")


def remove_the_note(repository: Repository) -> None:
    (history(repository) / "note.json").unlink()


def make_the_note_unreadable(repository: Repository) -> None:
    (history(repository) / "note.json").write_bytes(b"\0" * 100)


def remove_all(repository: Repository) -> None:
    shutil.rmtree(history(repository))


def take_a_tag_back(repository: Repository) -> None:
    git(repository.root, "tag", "-a", "v1", "-m", "A secret")
    listed(repository)
    git(repository.root, "tag", "-d", "v1")


@pytest.mark.parametrize(
    "change",
    [
        rewrite_base,
        truncate_a_pack,
        leave_another_pack,
        remove_the_note,
        make_the_note_unreadable,
        remove_all,
        take_a_tag_back,
    ],
)
def test_what_is_reached_is_shown_whatever_happened_to_the_copy(
    repository: Repository, change: Callable[[Repository], None]
) -> None:
    assert listed(repository) == reached(repository)
    change(repository)
    assert listed(repository) == reached(repository)
    assert listed(repository, "fsck", "--no-dangling") == []


def test_a_base_that_moves_on_adds_small_packs_which_are_put_together(repository: Repository) -> None:
    listed(repository)
    (first,) = (history(repository) / "objects" / "pack").glob("*.pack")
    counts = []
    for number in range(9):
        commit(repository, f"Change {number}")
        listed(repository, "rev-parse", "HEAD")
        counts.append(len(list((history(repository) / "objects" / "pack").glob("*.pack"))))
    assert counts == [*range(2, 9), 2, 3]
    assert first.exists()
    assert listed(repository) == reached(repository)


def test_tags_and_the_base_branch_of_a_remote_are_shown_if_the_base_contains_them(repository: Repository) -> None:
    root = repository.root
    git(root, "tag", "-a", "v1", "-m", "One")
    git(root, "update-ref", "refs/remotes/origin/main", "main")
    git(root, "switch", "-qc", "other")
    commit(repository, "Not on the base")
    git(root, "tag", "-a", "v2", "-m", "Two")
    git(root, "update-ref", "refs/remotes/mirror/main", "other")
    git(root, "switch", "-q", "main")
    refs = ["refs/heads/alice", "refs/heads/main", "refs/remotes/origin/main", "refs/tags/v1"]
    assert listed(repository, "for-each-ref", "--format=%(refname)") == refs
    assert listed(repository) == reached(repository, "v1")
    # A tag that comes later is found too.
    git(root, "tag", "later/one", "main")
    assert listed(repository, "for-each-ref", "--format=%(refname)") == sorted([*refs, "refs/tags/later/one"])


def test_a_repository_with_longer_ids_is_shown(tmp_path: Path) -> None:
    repository = with_feature(make_repository(tmp_path / "repo", object_format="sha256"))
    assert listed(repository) == reached(repository)
    assert listed(repository, "fsck") == []


def test_a_shallow_clone_shows_what_it_has_and_more_when_it_has_more(tmp_path: Path, repository: Repository) -> None:
    for number in range(3):
        commit(repository, f"Change {number}")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{repository.root}", "shallow")
    clone = with_feature(open_repository(tmp_path / "shallow", os.environ))
    assert listed(clone, "log", "--format=%s") == ["Change 1", "Change 2"]
    assert listed(clone) == reached(clone)
    git(clone.root, "fetch", "-q", "--unshallow")
    assert len(listed(clone, "log", "--format=%s")) == 4
    assert listed(clone) == reached(clone)


def test_a_clone_that_borrows_objects_shows_them(tmp_path: Path, repository: Repository) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(repository.root), "borrower")
    clone = with_feature(open_repository(tmp_path / "borrower", os.environ))
    assert listed(clone) == reached(clone)


def test_a_partial_clone_shows_the_objects_that_it_has(tmp_path: Path, repository: Repository) -> None:
    commit(repository, "Change")
    git(repository.root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repository.root}", "partial")
    clone = with_feature(open_repository(tmp_path / "partial", os.environ))
    assert len(listed(clone, "log", "--format=%s")) == 2
    assert set(reached(clone, "--missing=allow-any")) == set(listed(clone))


def test_features_at_the_same_time_each_get_their_own(repository: Repository) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: listed(repository), range(4)))
    assert found == [reached(repository)] * 4
    assert len(list((repository.root / ".aop" / "run").iterdir())) == 1
    repository.close()
    assert list((repository.root / ".aop" / "run").iterdir()) == []


def shown_dir(repository: Repository) -> tuple[Path, int]:
    """Return the narrow git directory of the feature, with what tells one from another at the same place."""
    with repository.narrow.shown(repository.worktrees.path(ALICE), "main") as shown:
        assert shown is not None
        return shown, shown.stat().st_ino


def test_steps_of_one_worktree_share_a_git_directory_one_after_the_other_and_never_at_once(
    repository: Repository,
) -> None:
    first = shown_dir(repository)
    with repository.narrow.shown(repository.worktrees.path(ALICE), "main") as outer:
        inner = shown_dir(repository)
    assert (outer, inner == first) == (first[0], False)


def patch_the_feature(repository: Repository, _shown: Path) -> None:
    head = repository.branches.head("main")
    assert head is not None
    repository.worktrees.show_tree(ALICE, repository.objects.tree_of(head))


def commit_to_the_base(repository: Repository, _shown: Path) -> None:
    commit(repository, "Another")


def tag_the_base(repository: Repository, _shown: Path) -> None:
    git(repository.root, "tag", "v1", "main")


def exclude_files(repository: Repository, _shown: Path) -> None:
    (repository.git_dir / "info" / "exclude").write_text("*.log\n")


def refresh_the_index(repository: Repository, _shown: Path) -> None:
    index = repository.git_dir / "worktrees" / "alice" / "index"
    shutil.copyfile(index, index.with_name("copy"))
    index.with_name("copy").replace(index)


def write_a_setting(_repository: Repository, shown: Path) -> None:
    with (shown / "config").open("a") as config:
        config.write("[core]\n\tfsmonitor = /bin/false\n")


def write_a_setting_and_hide_it(_repository: Repository, shown: Path) -> None:
    before = (shown / "config").stat()
    (shown / "config").write_bytes((shown / "config").read_bytes().replace(b"bare = false", b"bare = true "))
    os.utime(shown / "config", ns=(before.st_atime_ns, before.st_mtime_ns))


def add_a_hook(_repository: Repository, shown: Path) -> None:
    (shown / "hooks").mkdir()


def add_a_ref(repository: Repository, shown: Path) -> None:
    (shown / "refs" / "heads" / "other").write_text(f"{repository.branches.head('main')}\n")


def add_a_pack(_repository: Repository, shown: Path) -> None:
    (shown / "objects" / "pack" / "pack-0.pack").touch()


def take_the_index_away(_repository: Repository, shown: Path) -> None:
    (shown / "worktrees" / "alice" / "index").unlink()


def close_a_folder(_repository: Repository, shown: Path) -> None:
    (shown / "objects").chmod(0)


@pytest.mark.parametrize(
    "change",
    [
        patch_the_feature,
        commit_to_the_base,
        tag_the_base,
        exclude_files,
        refresh_the_index,
        write_a_setting,
        write_a_setting_and_hide_it,
        add_a_hook,
        add_a_ref,
        add_a_pack,
        take_the_index_away,
        close_a_folder,
    ],
)
def test_a_git_directory_that_would_be_another_or_that_somebody_changed_is_made_anew(
    repository: Repository, change: Callable[[Repository, Path], None]
) -> None:
    first = shown_dir(repository)
    assert shown_dir(repository) == first
    change(repository, first[0])
    again = shown_dir(repository)
    assert again != first
    assert not first[0].exists()
    fresh = open_repository(repository.root, os.environ)
    with fresh.narrow.shown(fresh.worktrees.path(ALICE), "main") as shown:
        assert shown is not None
        assert contents(again[0]) == contents(shown)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return all files and folders below a folder."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def test_only_the_git_directories_of_the_last_worktrees_are_kept(repository: Repository) -> None:
    head = repository.branches.head("main")
    assert head is not None
    for number in range(18):
        feature_id = FeatureId(f"feature_{number}")
        repository.branches.create(feature_id, head)
        repository.worktrees.ensure(feature_id, feature_id)
        with repository.narrow.shown(repository.worktrees.path(feature_id), "main"):
            pass
    assert len(list((repository.root / ".aop" / "run").iterdir())) == 16


def test_the_git_directory_of_a_scratch_worktree_is_not_kept(repository: Repository) -> None:
    head = repository.branches.head("main")
    assert head is not None
    with repository.worktrees.scratch(head) as folder, repository.narrow.shown(folder, "main") as shown:
        assert shown is not None
        assert shown.is_dir()
    assert list((repository.root / ".aop" / "run").iterdir()) == []


def test_a_folder_that_is_no_worktree_is_shown_no_git_directory(repository: Repository, tmp_path: Path) -> None:
    with repository.narrow.shown(tmp_path, "main") as shown:
        assert shown is None
    with repository.narrow.shown(repository.worktrees.path(ALICE), "no-such-branch") as shown:
        assert shown is None
