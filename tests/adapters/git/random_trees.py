"""Trees of all shapes, made by plain git, for the tests that compare AOP with it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from aop.core.ids import ObjectId, TreeId

Content = Mapping[str, tuple[str, str]]
"""Path to mode and content."""

# Few names, so that files and folders often want the same one; some sort otherwise as folders than as files.
NAMES = st.sampled_from(["a", "b", "a.b", "a-b", "é", "long" * 60])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MODES = st.sampled_from(["100644", "100644", "100755", "120000"])
LINES = st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=1, max_size=6).map("\n".join)


def contents(*, modes: st.SearchStrategy[str] = MODES) -> st.SearchStrategy[Content]:
    """Return trees in which no path is a file and a folder at once."""
    return st.dictionaries(PATHS, st.tuples(modes, LINES), max_size=8).map(_without_conflicts)


def _without_conflicts(tree: Content) -> Content:
    return {path: what for path, what in tree.items() if not any(other.startswith(f"{path}/") for other in tree)}


class PlainGit:
    """Git as anybody runs it, with an index of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._index = root / ".git/index-of-a-test"

    def __call__(self, *words: str, stdin: bytes = b"", index: Path | None = None, check: bool = True) -> bytes:
        environment = {**os.environ, "GIT_INDEX_FILE": str(index or self._index)}
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=environment, input=stdin, capture_output=True, check=False, timeout=300
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout if done.returncode == 0 else b""

    def tree(self, content: Content) -> TreeId:
        """Write a tree."""
        self._index.unlink(missing_ok=True)
        lines = [f"{mode} {self.blob(text)}\t{path}\n" for path, (mode, text) in content.items()]
        self("update-index", "--index-info", stdin="".join(lines).encode())
        return TreeId(ObjectId(self("write-tree").decode().strip()))

    def blob(self, text: str) -> str:
        """Write a blob."""
        return self("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()

    def applied(self, tree: TreeId, patch: bytes) -> str | None:
        """Apply a patch to a tree in a whole index; return the new tree, or None if it does not apply."""
        self("read-tree", tree)
        arguments = ("apply", "--cached", "--unidiff-zero", "--whitespace=nowarn", "-")
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, input=patch, capture_output=True, check=False, timeout=300,
            env={**os.environ, "GIT_INDEX_FILE": str(self._index)},
        )  # fmt: skip
        return self("write-tree").decode().strip() if done.returncode == 0 else None
