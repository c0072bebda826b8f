"""Finding a repository: what is plain is seen without git, and whatever is not plain is as git says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aop.adapters.git.process.discovery import FoundCheckout, _plain_checkout, find_checkout
from aop.adapters.git.process.program import GitProgram
from aop.core.errors import NotARepository
from tests.world import git, make_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repository").resolve()
    (root / "src/deep").mkdir(parents=True)
    return root


@pytest.fixture
def without_git(tmp_path: Path) -> GitProgram:
    """A git that knows no repository."""
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return GitProgram({"PATH": str(program.parent)})


def found(root: Path, object_format: str = "sha1") -> FoundCheckout:
    return FoundCheckout(root=root, git_dir=root / ".git", object_format=object_format)


@pytest.mark.parametrize("below", [".", "src", "src/deep"])
def test_a_plain_repository_is_found_without_git(root: Path, without_git: GitProgram, below: str) -> None:
    assert find_checkout(without_git, root / below) == found(root)


def test_a_link_into_a_plain_repository_leads_there(root: Path, tmp_path: Path, without_git: GitProgram) -> None:
    (tmp_path / "link").symlink_to(root / "src")
    assert find_checkout(without_git, tmp_path / "link") == found(root)


def test_what_users_usually_set_keeps_a_repository_plain(root: Path, without_git: GitProgram) -> None:
    git(root, "config", "user.email", "ada@example.org")
    git(root, "config", "remote.origin.url", "https://example.org/a b.git")
    git(root, "config", "branch.main.merge", "refs/heads/main")
    with open(root / ".git/config", "a") as config:
        config.write("# a comment\n; another\n\n[core]\n\tbare = FALSE\n")
    assert find_checkout(without_git, root) == found(root)


@pytest.mark.parametrize(
    "lines",
    [
        "[core]\n\tbare = true\n",
        "[core]\n\tbare\n",
        "[core] bare = true\n",
        "[core]\n\tbare = tr\\\nue\n",
        '[core]\n\tbare = "true"\n',
        "[core]\n\tworktree = ../other\n",
        "[core]\n\trepositoryformatversion = 2\n",
        "[extensions]\n\tnobodyKnows = true\n",
        "[include]\n\tpath = other\n",
        "[broken\n",
        "= 3\n",
        f"# {'x' * 70_000}\n[core]\n\tbare = true\n",
    ],
)
def test_git_is_asked_about_a_config_that_says_more(root: Path, without_git: GitProgram, lines: str) -> None:
    with open(root / ".git/config", "a") as config:
        config.write(lines)
    with pytest.raises(NotARepository):
        find_checkout(without_git, root)


def test_git_is_asked_about_a_folder_that_looks_like_a_repository(root: Path, without_git: GitProgram) -> None:
    for folder in (root / ".git", root / ".git/refs"):
        with pytest.raises(NotARepository):
            find_checkout(without_git, folder)


@pytest.mark.parametrize("missing", ["HEAD", "config", "objects", "refs"])
def test_git_is_asked_about_what_is_not_whole(root: Path, without_git: GitProgram, missing: str) -> None:
    (root / ".git" / missing).rename(root / f"{missing}-elsewhere")
    with pytest.raises(NotARepository):
        find_checkout(without_git, root)


def test_a_repository_that_is_not_plain_is_found_with_git(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "other"
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256", "-b", "main")
    assert find_checkout(GitProgram(os.environ), root) == found(root, "sha256")


def test_a_linked_worktree_leads_to_the_repository_that_it_belongs_to(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert find_checkout(GitProgram(os.environ), tmp_path / "linked") == found(root)


CONFIG_LINES = st.sampled_from(
    [
        *("[core]", "[Core]", '[core "x"]', "[user]", "[extensions]", "[include]", "[core] bare = true", "# note"),
        *(
            "\tbare",
            "bare=true",
            "Bare = False",
            "bare = 0",
            "bare = fal\\",
            "se",
            'bare = "true"',
            "bare = false # no",
        ),
        *("repositoryformatversion = 1", "repositoryformatversion = 9", "worktree = ..", "objectformat = sha256"),
        *("path = other", "name = Ada; no", "", "= 3", "[broken", "bare = false # no"),
    ]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(CONFIG_LINES, max_size=4))
def test_what_is_found_without_git_is_what_git_finds(root: Path, lines: list[str]) -> None:
    config = root / ".git/config"
    before = config.read_text()
    config.write_text(before + "\n".join(lines) + "\n")
    plain = _plain_checkout(root / "src")
    if plain is not None:
        answer = git(root / "src", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--show-object-format")
        assert [str(plain.root), str(plain.git_dir), plain.object_format] == answer.splitlines()
    config.write_text(before)
