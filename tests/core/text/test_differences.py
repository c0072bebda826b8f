"""Unified diffs of two texts, which `patch` applies, also of texts that are long and repeat themselves."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from aop.core.text.differences import MOST_LINES, unified_difference


def lines(count: int, seed: int, *, kinds: int = 201) -> str:
    chance = random.Random(seed)
    return "".join(f"{chance.randrange(kinds)}\n" for _ in range(count))


LONG = MOST_LINES
CASES = {
    "one line": ("a\nb\nc\n", "a\nB\nc\n"),
    "no line end": ("a\nb", "a\nc"),
    "line end added": ("a\nb", "a\nb\n"),
    "all new": ("", "a\nb\n"),
    "all gone": ("a\nb\n", ""),
    "long and repeating": (lines(LONG, 1), lines(LONG, 2)),
    "long with the same ends": (f"a\nb\n{lines(LONG, 1)}y\nz\n", f"a\nb\n{lines(LONG, 2)}y\nz\n"),
    "much added": ("a\nz\n", f"a\n{lines(LONG * 2, 1)}z\n"),
    "much gone": (f"a\n{lines(LONG * 2, 1)}z\n", "a\nz\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_makes_one_text_of_the_other(tmp_path: Path, case: str) -> None:
    before, after = CASES[case]
    (tmp_path / "file").write_text(before)
    diff = unified_difference(before, after, "a/file", "b/file")
    assert diff.startswith("--- a/file\n+++ b/file\n@@ ")
    done = subprocess.run(["git", "apply", "--unidiff-zero"], cwd=tmp_path, input=diff, text=True, check=False)
    assert (done.returncode, (tmp_path / "file").read_text()) == (0, after)


def test_equal_texts_have_no_difference() -> None:
    assert unified_difference("a\n", "a\n", "a", "b") == ""
