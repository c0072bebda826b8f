"""Diffs that are told without git: wherever one is, git tells the same."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from aop.adapters.git.plain_diffs import plain_diff
from aop.adapters.git.trees import Difference
from aop.core.ids import ObjectId
from aop.kernel.ports import FileMode
from tests.adapters.git_repositories import make_repository
from tests.adapters.random_trees import PlainGit

TEXTS = ["".join(f"{line}\n" for line in lines) for size in range(1, 5) for lines in product("abc", repeat=size)]


def test_of_all_short_texts_the_diff_is_what_git_says(tmp_path: Path) -> None:
    make_repository(tmp_path / "project").close()
    plain = PlainGit(tmp_path / "project")
    blobs = {ObjectId(plain.blob(text)): text.encode() for text in TEXTS}
    pairs = [(old, new) for old in blobs for new in blobs if old != new]
    trees = [
        plain(
            "mktree",
            stdin="".join(f"100644 blob {pair[side]}\t{number:05}\n" for number, pair in enumerate(pairs)).encode(),
        )
        for side in (0, 1)
    ]
    said = plain("diff-tree", "-p", "-U0", "--full-index", *(tree.decode().strip() for tree in trees))
    by_git = re.sub(rb"(?m)^(@@ [^@]* @@).*$", rb"\1", said).split(b"diff --git ")[1:]
    told = 0
    for number, (old, new) in enumerate(pairs):
        change = (b"%05d" % number, (FileMode.FILE, old), (FileMode.FILE, new))
        ours = plain_diff([change], blobs.__getitem__)
        if ours is not None:
            told += 1
            assert ours == b"diff --git " + by_git[number]
    assert told > len(pairs) / 10


ONE, TWO = (FileMode.FILE, ObjectId("1" * 40)), (FileMode.FILE, ObjectId("2" * 40))


@pytest.mark.parametrize(
    ("change", "one", "two"),
    [
        ((b"a", None, TWO), b"one\n", b"two\n"),
        ((b"a", ONE, None), b"one\n", b"two\n"),
        ((b"a", ONE, (FileMode.EXECUTABLE, TWO[1])), b"one\n", b"two\n"),
        ((b"a", (FileMode.SYMLINK, ONE[1]), (FileMode.SYMLINK, TWO[1])), b"one\n", b"two\n"),
        (("é".encode(), ONE, TWO), b"one\n", b"two\n"),
        ((b"a b", ONE, TWO), b"one\n", b"two\n"),
        ((b"a", ONE, TWO), b"one", b"two\n"),
        ((b"a", ONE, TWO), b"one\n", b"two"),
        ((b"a", ONE, TWO), b"one\n", b""),
        ((b"a", ONE, TWO), b"one\n", b"\0\n"),
        ((b"a", ONE, TWO), b"one\n", b"two\n" * 10_000),
    ],
)
def test_whatever_else_there_is_to_a_change_git_is_asked(change: Difference, one: bytes, two: bytes) -> None:
    assert plain_diff([change], {ONE[1]: one, TWO[1]: two}.__getitem__) is None
