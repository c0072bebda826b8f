"""Trees read, compared and patched without a process for each: always the same as plain git has it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.objects.trees import leaf_before, parse_tree
from aop.adapters.git.process.output import raw_changes
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault, PatchDoesNotApply
from aop.core.ids import ObjectId, TreeId
from aop.kernel.ports.git import FileMode
from tests.adapters.git.random_trees import PATHS, Content, PlainGit, contents
from tests.adapters.git.repositories import CREATE_C, base_tree, git, make_repository, patched
from tests.soak.faults import needs_strace


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Repository]:
    made = make_repository(tmp_path_factory.mktemp("trees") / "project", object_format=request.param)
    yield made
    made.close()


@settings(max_examples=30)
@given(old=contents(), new=contents())
def test_the_changes_are_those_that_git_lists(repository: Repository, old: Content, new: Content) -> None:
    plain = PlainGit(repository.root)
    trees = plain.tree(old), plain.tree(new)
    listed = plain("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", *trees)
    expected = sorted(
        (raw.path, raw.status, raw.old_mode, raw.new_mode, raw.old_oid, raw.new_oid) for raw in raw_changes(listed)
    )
    found = []
    for change in repository.objects.changes(*trees):
        absent = ("000000", "0" * len(trees[0]))
        before = (change.old.mode, change.old.oid) if change.old else absent
        after = (change.new.mode, change.new.oid) if change.new else absent
        is_other_kind = absent not in (before, after) and before[0][:2] != after[0][:2]
        letter = "T" if is_other_kind else {"create": "A", "delete": "D", "modify": "M"}[change.kind]
        found.append((change.path, letter, before[0], after[0], before[1], after[1]))
    assert found == expected


@settings(max_examples=30)
@given(old=contents(), new=contents(), actual=contents(), same=st.booleans())
def test_a_patch_makes_the_tree_that_it_makes_in_a_whole_index_or_is_refused_as_there(
    repository: Repository, old: Content, new: Content, actual: Content, *, same: bool
) -> None:
    plain = PlainGit(repository.root)
    trees = plain.tree(old), plain.tree(new)
    patch = plain("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", *trees)
    onto = trees[0] if same else plain.tree({**actual, **old} if not set(actual) & set(old) else actual)
    paths = {change.path for change in repository.objects.changes(*trees)}
    expected = plain.applied(onto, patch)
    try:
        made = repository.objects.apply_to_tree(onto, patch, paths=paths)
    except PatchDoesNotApply:
        assert expected is None
    else:
        assert made == expected
        git(repository.root, "fsck", "--no-dangling", "--strict")
    if same and patch:
        assert expected == trees[1]


@settings(max_examples=30)
@given(tree=contents(), path=PATHS)
def test_the_file_before_a_path_is_the_one_before_it_in_an_index(
    repository: Repository, tree: Content, path: str
) -> None:
    plain = PlainGit(repository.root)
    root = plain.tree(tree)
    earlier = [name for name in sorted(name.encode() for name in tree) if name < path.encode()]
    found = leaf_before(repository.objects.tree, root, path.encode())
    assert (found and found[0]) == (earlier[-1] if earlier else None)


def test_a_copy_and_a_rename_apply_as_in_a_whole_index(repository: Repository) -> None:
    base = base_tree(repository)
    copy = b"diff --git a/README.md b/copied/x\nsimilarity index 100%\ncopy from README.md\ncopy to copied/x\n"
    rename = b"diff --git a/src/a.txt b/b\nsimilarity index 100%\nrename from src/a.txt\nrename to b\n"
    made = repository.objects.apply_to_tree(base, copy + rename, paths={"README.md", "copied/x", "src/a.txt", "b"})
    assert made == PlainGit(repository.root).applied(base, copy + rename)


def test_a_patch_that_changes_what_nobody_found_in_it_is_refused(repository: Repository) -> None:
    with pytest.raises(PatchDoesNotApply, match="AOP did not find"):
        repository.objects.apply_to_tree(base_tree(repository), CREATE_C, paths={"src/other.txt"})


def test_a_patch_that_takes_everything_away_leaves_the_empty_tree(repository: Repository) -> None:
    plain = PlainGit(repository.root)
    base, empty = base_tree(repository), plain.tree({})
    patch = plain("diff-tree", "-r", "-p", "--binary", "--full-index", base, empty)
    assert patched(repository, base, patch) == empty


def test_a_new_object_is_written_as_git_writes_it_and_one_that_is_there_looks_new_again(
    repository: Repository,
) -> None:
    base = base_tree(repository)
    tree = patched(repository, base, CREATE_C)
    file = repository.git_dir / "objects" / tree[:2] / tree[2:]
    ours = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o444
    os.utime(file, (1, 1))
    assert patched(repository, base, CREATE_C) == tree
    assert file.stat().st_mtime > 1
    file.unlink()
    plain = PlainGit(repository.root)
    assert plain.applied(base, CREATE_C) == tree
    assert file.read_bytes() == ours
    assert not list((repository.git_dir / "objects").glob("*/tmp_obj_*"))


# --- trees that git does not write -------------------------------------------------------------------


def hand_made(repository: Repository, content: bytes) -> TreeId:
    made = subprocess.run(
        ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
        cwd=repository.root, input=content, capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    return TreeId(ObjectId(made.stdout.decode().strip()))


@pytest.mark.parametrize(
    "names",
    [(b"a", b"a"), (b"",), (b".",), (b"..",), (b"a/b",), (b"../x",)],
    ids=["twice", "empty", "dot", "dots", "path", "outside"],
)
def test_a_tree_with_a_name_that_is_none_is_a_fault(repository: Repository, names: tuple[bytes, ...]) -> None:
    oid = bytes.fromhex(git(repository.root, "rev-parse", "main:README.md"))
    tree = hand_made(repository, b"".join(b"100644 %s\0%s" % (name, oid) for name in names))
    with pytest.raises(Fault, match="A tree of the repository"):
        repository.objects.changes(base_tree(repository), tree)


@pytest.mark.parametrize("content", [b"100644 a", b"100644 a\0short", b"mode a\0" + b"x" * 20])
def test_what_is_not_a_tree_is_a_fault(content: bytes) -> None:
    with pytest.raises(Fault, match="A tree of the repository"):
        parse_tree(content, digest_size=20)


def test_modes_are_read_as_git_reads_them() -> None:
    modes = [b"100664", b"100744", b"0100644", b"40000", b"040000", b"120777", b"160000", b"020000"]
    content = b"".join(b"%s %d\0%s" % (mode, number, b"x" * 20) for number, mode in enumerate(modes))
    assert [mode for mode, _ in parse_tree(content, digest_size=20).values()] == [
        *(FileMode.FILE, FileMode.EXECUTABLE, FileMode.FILE),
        *(FileMode.TREE, FileMode.TREE, FileMode.SYMLINK, FileMode.GITLINK, FileMode.GITLINK),
    ]


def test_odd_modes_beside_a_patched_file_are_written_as_git_would(repository: Repository) -> None:
    oid = bytes.fromhex(git(repository.root, "rev-parse", "main:README.md"))
    odd = hand_made(repository, b"100664 other\0" + oid)
    assert patched(repository, odd, CREATE_C) == PlainGit(repository.root).applied(odd, CREATE_C)


BROKEN_GIT = """#!/bin/sh
case "$*" in
*" apply "*) exec {strace} -f -qq -o {trace} -e trace={call} -e inject={call}:error={error} {git} "$@" ;;
esac
exec {git} "$@"
"""


@needs_strace
@pytest.mark.parametrize("broken", ["fsync EIO", "fsync ENOSPC", "rename ENOSPC"])
def test_a_disk_that_is_full_or_broken_is_a_fault_and_not_a_patch_that_does_not_apply(
    repository: Repository, tmp_path: Path, broken: str
) -> None:
    call, error = broken.split()
    programs = {"git": shutil.which("git"), "strace": shutil.which("strace")}
    script = BROKEN_GIT.format(**programs, trace=tmp_path / "trace", call=call, error=error)
    (tmp_path / "git").write_text(script)
    (tmp_path / "git").chmod(0o755)
    broken_one = open_repository(repository.root, {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    patch = CREATE_C.replace(b"+see", b"+" + os.urandom(8).hex().encode())
    with pytest.raises(Fault, match="`git apply` ended with 128"):
        patched(broken_one, base_tree(repository), patch)
    broken_one.close()
    assert patched(repository, base_tree(repository), patch)
