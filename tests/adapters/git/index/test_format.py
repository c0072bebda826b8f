"""Index files: git reads those that AOP writes, and AOP reads those of git, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.index.format import Edit, edit_index, layout_of, read_index, serialize_index
from aop.adapters.git.index.tree_cache import cached_tree, update_notes
from aop.adapters.git.objects.trees import differences, leaf_before, leaves
from aop.adapters.git.repository import Repository
from tests.adapters.git.random_trees import Content, PlainGit, contents
from tests.adapters.git.repositories import make_repository


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Repository]:
    made = make_repository(tmp_path_factory.mktemp("index") / "project", object_format=request.param)
    yield made
    made.close()


def staged(plain: PlainGit, index: Path) -> bytes:
    return plain("ls-files", "-z", "--stage", index=index)


@settings(max_examples=15)
@given(content=contents())
def test_an_index_of_aop_is_to_git_what_its_own_is_and_the_other_way_round(
    repository: Repository, content: Content
) -> None:
    plain = PlainGit(repository.root)
    tree = plain.tree(content)
    gits, ours = repository.git_dir / "index-of-git", repository.git_dir / "index-of-aop"
    plain("read-tree", tree, index=gits)
    size = len(tree) // 2
    entries = dict(leaves(repository.objects.tree, tree, b""))
    assert read_index(gits.read_bytes(), digest_size=size) == entries
    ours.write_bytes(serialize_index(entries, digest_size=size))
    assert staged(plain, ours) == staged(plain, gits)
    assert plain("write-tree", index=ours).decode().strip() == tree


@pytest.mark.slow
@settings(max_examples=20)
@given(old=contents(), new=contents(), beside=st.booleans())
def test_an_edited_index_is_the_one_that_git_makes_of_the_new_tree(
    repository: Repository, old: Content, new: Content, *, beside: bool
) -> None:
    plain, read = PlainGit(repository.root), repository.objects.tree
    kept = {"z": ("100644", "the same")} if beside else {}
    before, after = plain.tree({**old, **kept}), plain.tree({**new, **kept})
    gits, ours, size = repository.git_dir / "index-of-git", repository.git_dir / "index-of-aop", len(before) // 2
    plain("read-tree", before, index=gits)
    content = gits.read_bytes()
    known = layout_of(content, digest_size=size)
    assert known is not None
    changed = list(differences(read, before, after))
    edits = [
        Edit(path=path, old=was, new=becomes, after=leaf_before(read, before, path) if was is None else None)
        for path, was, becomes in changed
    ]
    folders = update_notes(known.folders, changed, read=read, tree=after, digest_size=size)
    pieces, edited = edit_index(content, known, edits, folders)
    ours.write_bytes(b"".join(pieces))
    plain("read-tree", after, index=gits)
    assert staged(plain, ours) == staged(plain, gits)
    assert cached_tree(edited.folders, digest_size=size) == after
    assert layout_of(ours.read_bytes(), digest_size=size) == edited
    assert plain("write-tree", index=ours).decode().strip() == after
