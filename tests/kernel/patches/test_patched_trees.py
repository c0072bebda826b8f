"""What a patch makes of a tree: worked out here or by git, it is the same tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from aop.adapters.git.repository import Repository
from aop.core.errors import InvalidPatch, PatchDoesNotApply
from aop.core.ids import TreeId
from aop.kernel.config.policy import Placement
from aop.kernel.patches.checks import place_hunks
from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import Patch, parse_patch, render
from aop.kernel.patches.patched_trees import FittedChange, apply_hunks, patched_tree, plain_files
from aop.kernel.ports.git import FileMode
from tests.adapters.git.random_trees import Content, PlainGit
from tests.adapters.git.repositories import git, make_repository

RULES = PatchRules(allow_symlinks=True)
# Few lines, so that hunks fit at many places; some look like parts of a patch, some end in CR, some are no text.
LINE = st.sampled_from(["one", "two", "two\r", "", " ", "\r", "-- a", "++ b", "\\ c", "@@ -1 +1 @@", "\u00e9", "\t"])
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINE, max_size=9), st.sampled_from(["", "\n"]))
MODE = st.sampled_from(["100644", "100644", "100644", "100755", "120000"])
PATH = st.sampled_from(["a", "b", "c/d", "c/e", "c/f/g", "h i", "a.b"])
TREE = st.dictionaries(PATH, st.tuples(MODE, TEXT), max_size=5)


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Repository]:
    made = make_repository(tmp_path_factory.mktemp("applying") / "project", object_format=request.param)
    yield made
    made.close()


def patch_between(plain: PlainGit, trees: tuple[TreeId, TreeId], context: int) -> Patch:
    text = plain("-c", "core.quotePath=false", "diff-tree", "-r", "-p", f"-U{context}", "--no-renames", *trees)
    assume(text)
    try:
        return parse_patch(text, RULES)
    except InvalidPatch as refusal:
        # A file that becomes a link; no change in which git and AOP could differ.
        assume(refusal.facts["reason"] not in ("names_collide", "contradiction"))
        raise


@settings(max_examples=50)
@given(old=TREE, new=TREE, context=st.integers(1, 3))
def test_the_difference_of_two_trees_makes_one_out_of_the_other(
    repository: Repository, old: Content, new: Content, context: int
) -> None:
    plain = PlainGit(repository.root)
    trees = plain.tree(old), plain.tree(new)
    patch = patch_between(plain, trees, context)
    assert patched_tree(repository.objects, trees[0], patch, Placement.EXACT) == trees[1]
    git(repository.root, "fsck", "--no-dangling", "--strict")


def fitted(tree: Content, patch: Patch, repository: Repository, onto: TreeId) -> list[FittedChange]:
    fitting = []
    for file in patch.files:
        mode, text = tree.get(str(file.old_path), ("", "")) if file.hunks else ("", "")
        entry = repository.objects.entry(onto, str(file.old_path)) if mode else None
        old = text.encode() if entry else b""
        fitting.append(
            FittedChange(file=place_hunks(file, old, Placement.UNIQUE) if entry else file, entry=entry, old=old)
        )
    return fitting


@settings(max_examples=50)
@given(old=TREE, new=TREE, above=st.lists(LINE, max_size=2), more=TREE, context=st.integers(1, 3))
def test_what_is_worked_out_for_another_tree_is_what_git_makes_of_it(
    repository: Repository, old: Content, new: Content, above: list[str], more: Content, context: int
) -> None:
    plain = PlainGit(repository.root)
    moved = "".join(f"{line}\n" for line in above)
    onto = {**more} | {path: (mode, moved + text) for path, (mode, text) in old.items()}
    patch = patch_between(plain, (plain.tree(old), plain.tree(new)), context)
    tree = plain.tree(onto)
    try:
        fitting = fitted(onto, patch, repository, tree)
    except PatchDoesNotApply:
        assume(False)
    files = plain_files(repository.objects, tree, fitting)
    event("left to git" if files is None else "worked out")
    if files is not None:
        by_git = plain.applied(tree, render(Patch(files=tuple(each.file for each in fitting))))
        assert repository.objects.tree_with(tree, files) == by_git


HEADER = "diff --git a/{0} b/{0}\n"
CREATED = HEADER + "new file mode {1}\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+new\n"
TAKEN = HEADER + "deleted file mode {1}\n--- a/{0}\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-old\n"
CHANGED = HEADER + "--- a/{0}\n+++ b/{0}\n@@ -1,1 +1,1 @@\n-old\n+new\n"


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (CREATED.format("x", "100644"), {"x": ("100644", "new\n")}),
        (CREATED.format("x", "100755"), {"x": ("100755", "new\n")}),
        ((HEADER + "new file mode 100644\n").format("x"), {"x": ("100644", "")}),
        (CHANGED.format("folder/old"), {"folder/old": ("100644", "new\n")}),
        (CHANGED.format("run"), {"run": ("100755", "new\n")}),
        (TAKEN.format("folder/old", "100644"), {"folder/old": None}),
        (TAKEN.format("run", "100644"), None),
        (TAKEN.format("long", "100644"), None),
        (CHANGED.format("link"), None),
        (CREATED.format("folder", "100644"), None),
        (CREATED.format("run", "100644"), None),
        (CREATED.format("run/x", "100644"), None),
        (CREATED.format("link/x", "100644"), None),
        (CREATED.format("x", "120000"), None),
        ((HEADER + "old mode 100644\nnew mode 100755\n").format("folder/old"), None),
        ("diff --git a/run b/x\nrename from run\nrename to x\n", None),
        (CREATED.format("x", "100644") + CHANGED.format("link"), None),
    ],
)
def test_only_plain_changes_of_plain_files_are_worked_out(
    repository: Repository, text: str, files: Mapping[str, tuple[str, str] | None] | None
) -> None:
    plain = PlainGit(repository.root)
    content = {
        "folder/old": ("100644", "old\n"),
        "run": ("100755", "old\n"),
        "long": ("100644", "old\nolder\n"),
        "link": ("120000", "old\n"),
    }
    tree = plain.tree(content)
    fitting = fitted(content, parse_patch(text.encode(), RULES), repository, tree)
    found = plain_files(repository.objects, tree, fitting)
    assert files == (
        None if found is None else {path: file and (str(file[0]), file[1].decode()) for path, file in found.items()}
    )


def test_a_content_is_rewritten_line_by_line() -> None:
    first, second = b"@@ -1 +1 @@\n-a\r\n+A\r\n", b"@@ -3,0 +4 @@\n+d\n"
    last = b"@@ -4 +6 @@\n-e\n\\ No newline at end of file\n+E\n"
    text = b"--- a/x\n+++ b/x\n" + first + second + last
    (file,) = parse_patch(text, RULES).files
    assert apply_hunks(b"a\r\nb\nc\ne", file.hunks) == b"A\r\nb\nc\nd\nE\n"


def test_a_file_that_loses_its_last_line_stays_as_an_empty_one(repository: Repository) -> None:
    plain = PlainGit(repository.root)
    tree = plain.tree({"x": ("100755", "old\n")})
    patch = parse_patch(b"--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-old\n", RULES)
    made = patched_tree(repository.objects, tree, patch, Placement.EXACT)
    assert made == plain.tree({"x": ("100755", "")})
    entry = repository.objects.entry(made, "x")
    assert entry is not None
    assert (entry.mode, repository.objects.blob(entry.oid)) == (FileMode.EXECUTABLE, b"")
