"""Diffs that are told without git: wherever one is, git tells the same."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from aop.adapters.git.objects.small_diffs import plain_diff
from aop.adapters.git.objects.trees import Difference, Side
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode
from tests.adapters.git.random_trees import PlainGit
from tests.adapters.git.repositories import make_repository

TEXTS = ["".join(f"{line}\n" for line in lines) for size in range(5) for lines in product("abc", repeat=size)]


def side(oid: ObjectId | None) -> Side | None:
    return None if oid is None else (FileMode.FILE, oid)


def test_of_all_short_texts_the_diff_is_what_git_says(tmp_path: Path) -> None:
    make_repository(tmp_path / "project").close()
    plain = PlainGit(tmp_path / "project")
    blobs = {ObjectId(plain.blob(text)): text.encode() for text in TEXTS}
    pairs = [(old, new) for old, new in product([None, *blobs], repeat=2) if old != new]
    lines = [(f"100644 blob {old}\t{at:05}\n", f"100644 blob {new}\t{at:05}\n") for at, (old, new) in enumerate(pairs)]
    trees = [
        plain("mktree", stdin="".join(line for line in every if "None" not in line).encode()).decode().strip()
        for every in zip(*lines, strict=True)
    ]
    said = plain("diff-tree", "-p", "-U0", "--full-index", *trees)
    by_git = re.sub(rb"(?m)^(@@ [^@]* @@).*$", rb"\1", said).split(b"diff --git ")[1:]
    told = 0
    for number, (old, new) in enumerate(pairs):
        ours = plain_diff([(b"%05d" % number, side(old), side(new))], blobs.__getitem__)
        if ours is not None:
            told += 1
            assert ours == b"diff --git " + by_git[number]
    assert told > len(pairs) / 10


ONE, TWO = (FileMode.FILE, ObjectId("1" * 40)), (FileMode.FILE, ObjectId("2" * 40))


@pytest.mark.parametrize(
    ("change", "one", "two"),
    [
        ((b"a", None, TWO), b"one\n", b""),
        ((b"a", ONE, None), b"", b"two\n"),
        ((b"a", ONE, (FileMode.EXECUTABLE, TWO[1])), b"one\n", b"two\n"),
        ((b"a", (FileMode.SYMLINK, ONE[1]), (FileMode.SYMLINK, TWO[1])), b"one\n", b"two\n"),
        (("é".encode(), ONE, TWO), b"one\n", b"two\n"),
        ((b"a b", ONE, TWO), b"one\n", b"two\n"),
        ((b"a", ONE, TWO), b"one", b"two\n"),
        ((b"a", ONE, TWO), b"one\n", b"two"),
        ((b"a", ONE, TWO), b"one\n", b"\0\n"),
        ((b"a", ONE, TWO), b"one\n", b"two\n" * 10_000),
    ],
)
def test_whatever_else_there_is_to_a_change_git_is_asked(change: Difference, one: bytes, two: bytes) -> None:
    assert plain_diff([change], {ONE[1]: one, TWO[1]: two}.__getitem__) is None
