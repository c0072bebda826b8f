"""Branches read from their files: always where git says that they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.repository import Repository
from tests.adapters.git.random_trees import PlainGit
from tests.adapters.git.repositories import git, make_repository

NAMES = ("one", "one/below", "two")
CHANGES = ("set", "move", "delete", "pack", "symbolic", "damage")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    made = make_repository(tmp_path_factory.mktemp("refs") / "project")
    git(made.root, "commit", "--quiet", "--allow-empty", "-m", "second")
    yield made
    made.close()


def change(plain: PlainGit, git_dir: Path, kind: str, name: str) -> None:
    ref = f"refs/heads/{name}"
    if kind == "pack":
        plain("pack-refs", "--all", check=False)
    elif kind == "symbolic":
        plain("symbolic-ref", ref, "refs/heads/main", check=False)
    elif kind == "damage":
        if (git_dir / ref).is_file():
            (git_dir / ref).write_bytes(b"")
    elif kind == "delete":
        plain("update-ref", "--no-deref", "-d", ref, check=False)
    else:
        plain("update-ref", "--no-deref", ref, "main" if kind == "set" else "main~1", check=False)


@settings(max_examples=15)
@given(changes=st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(NAMES)), max_size=5))
def test_a_branch_is_where_git_lists_it_however_it_is_kept(
    repository: Repository, changes: list[tuple[str, str]]
) -> None:
    plain = PlainGit(repository.root)
    for kind, name in changes:
        change(plain, repository.git_dir, kind, name)
    for name in (*NAMES, "main"):
        assert repository.branches.head(name) == repository.branches._id_by_git(f"refs/heads/{name}")
    for name in NAMES:
        plain("update-ref", "--no-deref", "-d", f"refs/heads/{name}", check=False)
        # Git does not delete a ref whose file is empty.
        if (repository.git_dir / f"refs/heads/{name}").is_file():
            (repository.git_dir / f"refs/heads/{name}").unlink()
