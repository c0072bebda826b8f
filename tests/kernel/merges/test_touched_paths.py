"""Changes that keep apart merge cleanly: judged by places alone, and checked against git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import CommitId, ObjectId
from aop.kernel.merges.touched_paths import TouchedPaths, meeting_pairs, touched_paths_between
from aop.kernel.ports.git import Proposal
from tests.world import git

Files = Mapping[str, str]

NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MOVES = st.tuples(st.sampled_from(["move", "write", "delete"]), PATHS, PATHS)


def text_of(seed: str) -> str:
    """Return a text that git knows again when it is moved and changed a little."""
    return "".join(f"{seed} line {number}\n" for number in range(12))


TREES = st.sets(PATHS, min_size=2, max_size=8).map(lambda paths: whole({path: text_of(path) for path in sorted(paths)}))


def whole(files: Files) -> dict[str, str]:
    """Drop what cannot be there since something else is below it."""
    return {path: text for path, text in files.items() if not any(other.startswith(f"{path}/") for other in files)}


def changed(files: Files, steps: list[tuple[str, str, str]], who: str) -> dict[str, str]:
    """Move files and folders, write to files or make them, delete them with all that is below."""
    now = dict(files)
    for step, source, target in steps:
        below = [path for path in now if path == source or path.startswith(f"{source}/")]
        if step == "write":
            now[source] = now.get(source, text_of(f"{who} {source}")) + f"{who}\n"
        elif step == "delete":
            for path in below:
                del now[path]
        else:
            moved = {target + path[len(source) :]: now.pop(path) for path in below}
            now |= moved
    return whole(now)


class Merging:
    """A repository that changes are written to and merged in."""

    def __init__(self, root: Path) -> None:
        git(root, "init", "-q", ".")
        self.root = root
        self.repository: Repository = open_repository(root, os.environ)

    def commits(self, base: Files, *changes: Files) -> list[CommitId]:
        """Write a commit, and others on top of it."""
        lines = [line for number, files in enumerate((base, *changes)) for line in _import_lines(number, files)]
        said = subprocess.run(
            ["git", "fast-import", "--quiet", "--force"],
            cwd=self.root,
            input="".join(lines).encode(),
            capture_output=True,
            check=True,
        )
        return [CommitId(ObjectId(line)) for line in said.stdout.decode().split()]

    def touched(self, old: CommitId, new: CommitId) -> TouchedPaths:
        return touched_paths_between(
            self.repository.objects, self.repository.objects.tree_of(old), self.repository.objects.tree_of(new)
        )

    def is_clean(self, ours: CommitId, theirs: CommitId) -> bool:
        with self.repository.merges.trials() as trials:
            return trials.merge([(Proposal(commit=ours), Proposal(commit=theirs))])[0].is_clean


def _import_lines(number: int, files: Files) -> Iterator[str]:
    yield f"commit refs/heads/c{number}\nmark :{number + 1}\ncommitter A <a@b> 0 +0000\ndata 0\n"
    yield "from :1\ndeleteall\n" if number else "deleteall\n"
    yield from (f"M 100644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in files.items())
    yield f"get-mark :{number + 1}\n"


@pytest.fixture(scope="module")
def merging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Merging]:
    made = Merging(tmp_path_factory.mktemp("merging"))
    yield made
    made.repository.close()


SPLIT: Files = {f"d/{name}": text_of(name) for name in "abcd"} | {"a": text_of("a")}


@pytest.mark.unmeasured
@settings(max_examples=100)
@given(TREES, st.lists(MOVES, max_size=3), st.lists(MOVES, max_size=3))
@example(SPLIT, [("move", "d", "c")], [("write", "d/new", "d")])
@example(SPLIT, [("move", "d/a", "b/a"), ("move", "d/b", "b/b"), ("move", "d", "c")], [("write", "a", "a")])
@example(SPLIT, [("move", "d/a", "b/a"), ("move", "d/b", "b/b"), ("move", "d", "c")], [("write", "b/x", "a")])
@example(SPLIT, [("move", "d", "c")], [("move", "a", "d/a2")])
@example(SPLIT, [("move", "a", "b")], [("write", "b/x", "b")])
@example(SPLIT, [("delete", "d", "d"), ("write", "d", "d")], [("write", "d/b/a", "d")])
def test_changes_that_do_not_meet_merge_cleanly(
    merging: Merging, files: Files, ours: list[tuple[str, str, str]], theirs: list[tuple[str, str, str]]
) -> None:
    base, one, two = merging.commits(files, changed(files, ours, "one"), changed(files, theirs, "two"))

    if not merging.touched(base, one).meets(merging.touched(base, two)):
        assert merging.is_clean(one, two)


PLACES = st.frozensets(PATHS, max_size=4)
TOUCHED = st.builds(TouchedPaths, paths=PLACES, folders=PLACES, filled=PLACES, removed=PLACES)


@given(st.lists(TOUCHED, max_size=6))
def test_the_pairs_found_by_place_are_those_that_meet(changes: list[TouchedPaths]) -> None:
    found = meeting_pairs(dict(enumerate(changes)))
    assert list(found) == [(a, b) for a, b in combinations(range(len(changes)), 2) if changes[a].meets(changes[b])]
