"""What a diff asks for, read strictly, and written again for git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.core.errors import InvalidPatch, PathOutOfBounds
from aop.core.paths.names import RepoPath
from aop.kernel.config.policy import Placement
from aop.kernel.patches.file_headers import FilePatch
from aop.kernel.patches.hunks import Hunk
from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import parse_patch, render
from aop.kernel.patches.placement import place
from aop.kernel.ports.git import FileMode

RULES = PatchRules()
A = RepoPath("src/a.txt")
B = RepoPath("src/b.txt")

EDIT = b"""\
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,3 +1,3 @@ def f():
 one
-two
+2
 three
"""
EDIT_HUNK = Hunk(
    old_start=1,
    old_count=3,
    new_start=1,
    new_count=3,
    section="def f():",
    lines=(b" one", b"-two", b"+2", b" three"),
)
GIT_EDIT = b"diff --git a/src/a.txt b/src/a.txt\nindex 1234567..89abcde 100644\n" + EDIT


def parsed(text: bytes, rules: PatchRules = RULES) -> tuple[FilePatch, ...]:
    return parse_patch(text, rules).files


def refusal(text: bytes, rules: PatchRules = RULES) -> InvalidPatch:
    with pytest.raises(InvalidPatch) as refused:
        parse_patch(text, rules)
    return refused.value


def git(folder: Path, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
    ended = subprocess.run(["git", *arguments], cwd=folder, input=stdin, capture_output=True, check=False, timeout=300)
    assert ended.returncode in ok, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("text", [EDIT, GIT_EDIT], ids=["traditional", "git"])
def test_an_edit_is_read_in_both_styles(text: bytes) -> None:
    assert parsed(text) == (FilePatch(old_path=A, new_path=A, hunks=(EDIT_HUNK,)),)


@pytest.mark.parametrize(
    "header",
    [
        b"--- /dev/null\n+++ b/src/b.txt\n@@ -0,0 +1,2 @@\n",
        b"--- /dev/null\t2026-01-01 10:00:00\n+++ b/src/b.txt\t2026-01-01 10:00:00\n@@ -1,0 +5,2 @@\n",
        b"diff --git a/src/b.txt b/src/b.txt\nnew file mode 100644\n"
        b"index 0000000..1234567\n--- /dev/null\n+++ b/src/b.txt\n@@ -0,0 +1,2 @@\n",
        b"diff --git a/src/b.txt b/src/b.txt\n--- /dev/null\n+++ b/src/b.txt\n@@ -0,0 +1,2 @@\n",
    ],
    ids=["traditional", "time_stamps_and_other_numbers", "git", "git_without_mode"],
)
def test_a_new_file_has_a_mode_and_begins_at_line_one(header: bytes) -> None:
    hunk = Hunk(old_start=0, old_count=0, new_start=1, new_count=2, lines=(b"+x", b"+y"))
    assert parsed(header + b"+x\n+y\n") == (
        FilePatch(old_path=None, new_path=B, new_mode=FileMode.FILE, hunks=(hunk,)),
    )


def test_a_deleted_file_loses_all_its_lines() -> None:
    header = b"diff --git a/src/b.txt b/src/b.txt\ndeleted file mode 100755\n--- a/src/b.txt\n+++ /dev/null\n"
    hunk = Hunk(old_start=1, old_count=1, new_start=0, new_count=0, lines=(b"-x",))
    assert parsed(header + b"@@ -1 +0,0 @@\n-x\n") == (
        FilePatch(old_path=B, new_path=None, old_mode=FileMode.EXECUTABLE, hunks=(hunk,)),
    )


@pytest.mark.parametrize(
    ("verb", "mode", "expected"),
    [
        (b"new", b"100755", FilePatch(old_path=None, new_path=A, new_mode=FileMode.EXECUTABLE)),
        (b"deleted", b"100644", FilePatch(old_path=A, new_path=None, old_mode=FileMode.FILE)),
    ],
)
def test_an_empty_file_comes_and_goes_without_a_hunk(verb: bytes, mode: bytes, expected: FilePatch) -> None:
    assert parsed(b"diff --git a/src/a.txt b/src/a.txt\n" + verb + b" file mode " + mode + b"\n") == (expected,)


@pytest.mark.req("AOP-134")
def test_a_rename_names_both_sides() -> None:
    text = b"diff --git a/src/a.txt b/src/b.txt\nsimilarity index 100%\nrename from src/a.txt\nrename to src/b.txt\n"
    (file,) = parsed(text)
    assert file == FilePatch(old_path=A, new_path=B, is_rename=True)
    assert file.paths == {A, B}


@pytest.mark.req("AOP-134")
def test_a_copy_is_a_switch_and_names_both_sides() -> None:
    text = b"diff --git a/src/a.txt b/src/b.txt\ncopy from src/a.txt\ncopy to src/b.txt\n"
    assert refusal(text).facts == {"reason": "copy", "line": 2}
    (file,) = parsed(text, PatchRules(allow_copy=True))
    assert file == FilePatch(old_path=A, new_path=B, is_copy=True)
    assert file.paths == {A, B}


@pytest.mark.req("AOP-134")
def test_a_changed_mode_names_its_file() -> None:
    (file,) = parsed(b"diff --git a/src/a.txt b/src/a.txt\nold mode 100644\nnew mode 100755\n")
    assert file == FilePatch(old_path=A, new_path=A, old_mode=FileMode.FILE, new_mode=FileMode.EXECUTABLE)
    assert file.paths == {A}


def test_the_source_of_a_copy_may_be_changed_in_the_same_patch() -> None:
    text = b"diff --git a/src/a.txt b/src/b.txt\ncopy from src/a.txt\ncopy to src/b.txt\n" + GIT_EDIT
    files = parsed(text, PatchRules(allow_copy=True))
    assert [(file.old_path, file.new_path) for file in files] == [(A, B), (A, A)]


def test_symbolic_links_are_a_switch() -> None:
    text = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+src\n" + (
        b"\\ No newline at end of file\n"
    )
    assert refusal(text).facts == {"reason": "mode", "line": 2}
    (file,) = parsed(text, PatchRules(allow_symlinks=True))
    assert file.new_mode is FileMode.SYMLINK


@pytest.mark.parametrize(
    ("spelled", "name"),
    [(rb"\303\251.txt", "é.txt"), (rb"\"x\"", '"x"'), (b"plain", "plain"), (rb"sp \303\251", "sp é")],
)
def test_quoted_names_are_a_switch(spelled: bytes, name: str) -> None:
    old, new = b'"a/' + spelled + b'"', b'"b/' + spelled + b'"'
    text = b"diff --git %b %b\n--- %b\n+++ %b\t\n@@ -1 +1 @@\n-x\n+y\n" % (old, new, old, new)
    assert refusal(text).facts == {"reason": "quoted_name", "line": 1}
    (file,) = parsed(text, PatchRules(allow_quoted_names=True))
    assert file.paths == {name}


def test_one_name_of_a_pair_may_be_quoted() -> None:
    text = b'diff --git a/x "b/\\303\\251"\nrename from x\nrename to "\\303\\251"\n'
    (file,) = parsed(text, PatchRules(allow_quoted_names=True))
    assert file == FilePatch(old_path=RepoPath("x"), new_path=RepoPath("é"), is_rename=True)


@pytest.mark.parametrize("spelled", [rb'"a/x', rb'"a/x\q"', rb'"a/x\12"', rb'"a/x"y"', rb'"a/x" ', b'"', rb'"a/\400"'])
def test_a_quoted_name_is_well_formed(spelled: bytes) -> None:
    text = b'--- %b\n+++ "b/x"\n@@ -1 +1 @@\n-x\n+y\n' % spelled
    assert refusal(text, PatchRules(allow_quoted_names=True)).facts == {"reason": "quoted_name", "line": 1}


@pytest.mark.parametrize("name", ["with space", "x b/x", "é/ü", 'q"q', "a/b", "b"])
def test_odd_names_survive_in_both_styles(name: str) -> None:
    path = name.encode()
    sides = b"--- a/%b\t\n+++ b/%b\n@@ -1 +1 @@\n-x\n+y\n" % (path, path)
    for text in (sides, b"diff --git a/%b b/%b\n" % (path, path) + sides):
        assert [file.paths for file in parsed(text)] == [{name}]


def test_several_files_may_have_blank_lines_between_and_behind_them() -> None:
    text = EDIT + b"\n" + EDIT.replace(b"src/a", b"src/b") + b"\n\n"
    assert [file.new_path for file in parsed(text)] == [A, B]


def test_an_empty_line_is_context_whose_space_was_stripped() -> None:
    text = b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n\n-two\n+2\n"
    assert parsed(text)[0].hunks[0].lines == (b" one", b" ", b"-two", b"+2")


def test_content_may_be_any_bytes_but_nul() -> None:
    text = b"--- a/x\n+++ b/x\n@@ -1 +1 @@ \xe9\n-caf\xe9\r\n+caf\xc3\xa9\r\x0c\n"
    (hunk,) = parsed(text)[0].hunks
    assert hunk.lines == (b"-caf\xe9\r", b"+caf\xc3\xa9\r\x0c")


@pytest.mark.parametrize("second", [b"@@ -3 +3 @@\n-three\n+3\n", b"@@ -1 +1 @@\n-one\n+1\n"])
def test_hunks_that_overlap_or_go_back_are_refused(second: bytes) -> None:
    first = b"--- a/x\n+++ b/x\n@@ -2,2 +2,2 @@\n-two\n+2\n three\n"
    assert (refusal(first + second).facts["reason"], refusal(first + second).facts["line"]) == ("hunks_overlap", 7)


@pytest.mark.parametrize(
    ("body", "actual"),
    [
        (b" one\n-two\n+2\n three\n+four\n", [3, 4]),
        (b" one\n-two\n+2\n", [2, 2]),
        (b" one\n-two\n+2\n+3\n three\n", [3, 4]),
        (b" one\n-two\n+2\n three\n four\n\n", [4, 4]),
        (b" one\n-two\n+2\n@@ -9 +9 @@\n-x\n+y\n", [2, 2]),
        (b" one\n-two\n+2\n" + GIT_EDIT, [2, 2]),
        (b"-two\n--- a/y\n+++ b/y\n@@ -9 +9 @@\n-x\n+y\n", [1, 0]),
    ],
)
def test_wrong_counts_are_refused_with_the_right_ones(body: bytes, actual: list[int]) -> None:
    refused = refusal(b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n" + body)
    assert refused.facts == {
        "reason": "wrong_hunk_counts",
        "line": 3,
        "path": "x",
        "declared": [3, 3],
        "actual": actual,
    }
    assert refused.message == (
        "Line 3 of the patch: the hunk declares 3 old and 3 new lines, "
        f"but its body has {actual[0]} old and {actual[1]} new lines."
    )


def test_a_line_of_context_without_its_space_is_named() -> None:
    refused = refusal(b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\nthree\n")
    assert refused.facts == {"reason": "bad_hunk_line", "line": 7, "path": "x"}
    assert refused.message == (
        "Line 7 of the patch: `'three'` is inside a hunk and must begin with a space, `+` or `-`."
    )


MARKER = b"\\ No newline at end of file\n"


@pytest.mark.parametrize(
    "body",
    [
        b"@@ -1 +1 @@\n-x\n" + MARKER + b"+y\n",
        b"@@ -1 +1 @@\n-x\n" + MARKER + b"+y\n" + MARKER,
        b"@@ -1 +1,2 @@\n+y\n x\n" + MARKER,
    ],
)
def test_a_marker_stands_behind_the_last_line_of_a_side(body: bytes) -> None:
    assert parsed(b"--- a/x\n+++ b/x\n" + body)[0].hunks[0].lines.count(MARKER.strip()) == body.count(MARKER)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"@@ -1,2 +1 @@\n-x\n" + MARKER + b"-z\n+y\n", "misplaced_marker"),
        (b"@@ -1 +1,2 @@\n-x\n+y\n" + MARKER + b"+z\n", "misplaced_marker"),
        (b"@@ -1,2 +1,3 @@\n x\n" + MARKER + b"+y\n z\n", "misplaced_marker"),
        (b"@@ -1 +1,2 @@\n" + MARKER + b" x\n+y\n", "misplaced_marker"),
        (b"@@ -1,2 +1 @@\n x\n-y\n" + MARKER + MARKER, "not_a_diff"),
        (b"@@ -1 +1 @@\n-x\n+y\n\\ Kein Zeilenumbruch am Dateiende\n", "bad_hunk_line"),
    ],
)
def test_a_marker_elsewhere_is_refused(body: bytes, reason: str) -> None:
    assert refusal(b"--- a/x\n+++ b/x\n" + body).facts["reason"] == reason


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"old mode 100644\n", "contradiction"),
        (b"new file mode 100644\ndeleted file mode 100644\n", "contradiction"),
        (b"new file mode 100644\nnew file mode 100644\n", "header"),
        (b"new file mode 100644\nindex 0..1 100755\n", "contradiction"),
        (b"new file mode 100644\nold mode 100644\nnew mode 100755\n", "contradiction"),
        (b"old mode 100644\nnew mode 100644\n", "no_change"),
        (b"rename from x\n", "contradiction"),
        (b"rename from x\nrename to x\n", "contradiction"),
        (b"rename from x\ncopy to x\n", "contradiction"),
        (b"rename from x\nrename to y\n", "names_differ"),
        (b"rename from x\nrename to y\nnew file mode 100644\n", "contradiction"),
        (b"index 1 2 3\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n", "header"),
        (b"new file mode 100644\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+y\n", "names_differ"),
        (b"deleted file mode 100644\n--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-y\n", "names_differ"),
        (b"--- a/x\n+++ b/x\n", "no_hunks"),
        (b"--- a/x\n@@ -1 +1 @@\n-x\n+y\n", "header"),
        (b"rename old x\nrename new y\n", "not_a_diff"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n x\n", "empty_hunk"),
        (b"--- a/x\n+++ b/x\n@@ -1,0 +1,0 @@\n", "empty_hunk"),
    ],
)
def test_header_lines_that_contradict_each_other_are_refused(lines: bytes, reason: str) -> None:
    assert refusal(b"diff --git a/x b/x\n" + lines).facts["reason"] == reason


@pytest.mark.parametrize(("text", "line"), [(b"```diff\n" + EDIT + b"```\n", 1), (EDIT + b"```\n", 8)])
def test_a_markdown_fence_is_refused_with_the_remedy(text: bytes, line: int) -> None:
    refused = refusal(text)
    assert refused.facts == {"reason": "fenced", "line": line}
    assert refused.message.endswith("a Markdown fence is not part of a diff; send the bare diff without it.")


def test_limits_are_those_of_the_rules() -> None:
    assert refusal(EDIT, PatchRules(max_bytes=len(EDIT) - 1)).facts == {"reason": "too_large", "bytes": len(EDIT)}
    assert refusal(EDIT, PatchRules(max_line_bytes=10)).facts == {"reason": "line_too_long", "line": 1}
    two = EDIT + EDIT.replace(b"src/a", b"src/b")
    assert refusal(two, PatchRules(max_files=1)).facts == {"reason": "too_many_files", "line": 8}
    assert len(parsed(two, PatchRules(max_files=2, max_bytes=len(two), max_line_bytes=24))) == 2


def test_a_path_out_of_bounds_is_refused_with_its_line() -> None:
    with pytest.raises(PathOutOfBounds) as refused:
        parse_patch(b"--- a/x/../y\n+++ b/x/../y\n@@ -1 +1 @@\n-x\n+y\n", RULES)
    assert refused.value.facts == {"path": "x/../y", "line": 1, "reason": "`..` leads out of a directory"}


def test_numbers_of_hunks_are_kept_apart_from_what_they_must_be() -> None:
    text = b"--- a/x\n+++ b/x\n@@ -7 +70 @@\n-x\n+y\n@@ -8 +3 @@\n-x\n+y\n"
    assert [hunk.header for hunk in parsed(text)[0].hunks] == ["@@ -7,1 +70,1 @@", "@@ -8,1 +3,1 @@"]


def test_the_canonical_text_is_what_git_writes() -> None:
    text = (
        b"diff --git a/src/a.txt b/src/b c.txt\nold mode 100644\nnew mode 100755\n"
        b"rename from src/a.txt\nrename to src/b c.txt\n--- a/src/a.txt\n+++ b/src/b c.txt\t\n"
        b"@@ -1,3 +1,3 @@ def f():\n one\n-two\n+2\n three\n"
        b"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+x\n" + MARKER
    ) + b"diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
    assert render(parse_patch(text, RULES)) == text


def test_a_traditional_patch_gets_the_headers_of_git() -> None:
    text = b"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
    assert render(parse_patch(text, RULES)) == (
        b"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+x\n"
    )


def test_what_git_diffs_is_read_and_applied_to_the_same_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    before = {
        "keep.py": b"a\nb\nc\n",
        "gone.txt": b"1\n2",
        "empty": b"",
        "old name.md": b"x\n" * 9,
        "run.sh": b"#!/bin/sh\n",
        "copied": bytes(range(1, 200)) * 5,
        'quo"ted': b"q\n",
        "blob": bytes(300),
    }
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    git(tmp_path, "add", "-A")
    old = git(tmp_path, "write-tree").decode().strip()
    (tmp_path / "keep.py").write_bytes(b"a\nB\nc\nd")
    for name in ("gone.txt", "empty"):
        (tmp_path / name).unlink()
    (tmp_path / "new name.md").write_bytes(b"x\n" * 8 + b"y\n")
    (tmp_path / "old name.md").unlink()
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / 'quo"ted').chmod(0o755)
    (tmp_path / "copy").write_bytes(before["copied"] + b"more\n")
    (tmp_path / "copied").write_bytes(before["copied"] + b"\n")
    (tmp_path / "blob").write_bytes(bytes(301))
    (tmp_path / "born").write_bytes(b"")
    (tmp_path / "born.bin").write_bytes(bytes(range(256)) * 3)
    git(tmp_path, "add", "-A")
    new = git(tmp_path, "write-tree").decode().strip()
    rules = PatchRules(allow_copy=True, allow_binary=True, allow_quoted_names=True)
    patch = parse_patch(git(tmp_path, "diff", "--binary", "-M", "-C", old, new), rules)
    assert {path for file in patch.files for path in file.paths} == {
        *("keep.py", "gone.txt", "empty", "new name.md", "old name.md", "run.sh", 'quo"ted'),
        *("copy", "copied", "blob", "born", "born.bin"),
    }
    git(tmp_path, "read-tree", old)
    git(tmp_path, "apply", "--cached", "--unidiff-zero", stdin=render(patch))
    assert git(tmp_path, "write-tree").decode().strip() == new


def test_a_binary_patch_is_unpacked_within_its_declared_size(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "x.bin").write_bytes(bytes(5000))
    git(tmp_path, "add", "x.bin")
    text = git(tmp_path, "diff", "--cached", "--binary")
    rules = PatchRules(allow_binary=True)
    assert parsed(text, rules)[0].is_binary
    damaged = [
        (text, PatchRules(), "binary"),
        (text, PatchRules(allow_binary=True, max_bytes=4999), "too_large"),
        (text.replace(b"literal 5000", b"literal 4999"), rules, "binary"),
        (text.replace(b"literal 5000", b"literal 5001"), rules, "binary"),
        (text.replace(b"literal 5000", b"literal x"), rules, "binary"),
        (text.replace(b"\nindex 0", b"\nindex "), rules, "binary"),
        (text.replace(b"literal 5000\n", b"literal 5000\n!"), rules, "binary"),
        (text.replace(b"literal 5000\n", b"literal 5000\nz"), rules, "binary"),
        (text.rstrip(b"\n") + b"\n", rules, "binary"),
    ]
    assert [refusal(bad, with_rules).facts["reason"] for bad, with_rules, _ in damaged] == [why for *_, why in damaged]


def test_a_delta_that_grows_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    noise = b"".join(bytes([number * 7 % 256, number % 256, 0]) for number in range(1000))
    (tmp_path / "x.bin").write_bytes(noise)
    git(tmp_path, "add", "x.bin")
    (tmp_path / "x.bin").write_bytes(noise * 20)
    text = git(tmp_path, "diff", "--binary")
    assert b"\ndelta " in text
    assert parsed(text, PatchRules(allow_binary=True))[0].is_binary
    limited = PatchRules(allow_binary=True, max_bytes=max(len(text), 10_000))
    assert refusal(text, limited).facts["reason"] == "too_large"


LINES = st.sampled_from(
    [b"", b" ", b"a", b"b", b"c\r", b"-- x", b"++ b/x", b"@@ -1 +1 @@", b"diff --git a/x b/x", b"\\ No", b"\xff"]
)
CONTENTS = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINES, max_size=25), st.sampled_from([b"\n", b""])
)


@settings(max_examples=60)
@given(old=CONTENTS, new=CONTENTS, context=st.integers(min_value=1, max_value=4))
def test_parsed_placed_and_rendered_git_makes_the_new_content(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes, context: int
) -> None:
    folder = tmp_path_factory.mktemp("diff")
    for side, content in (("a", old), ("b", new)):
        (folder / side).mkdir()
        (folder / side / "x").write_bytes(content)
    text = git(folder, "diff", "--no-index", "--no-prefix", "--text", f"-U{context}", "a", "b", ok=(0, 1))
    if not text:
        assert old == new
        return
    patch = parse_patch(text, RULES)
    assert parse_patch(render(patch), RULES) == patch
    (file,) = patch.files
    placed = place(file.hunks, old, mode=Placement.EXACT)
    assert placed == file.hunks
    git(folder / "a", "apply", "--unidiff-zero", "--whitespace=nowarn", stdin=render(patch))
    assert (folder / "a" / "x").read_bytes() == new


SEED = (GIT_EDIT + b"diff --git a/y b/z\nrename from y\nrename to z\n--- a/y\n+++ b/z\n@@ -1 +1 @@\n-x\n+y\n").split(
    b"\n"
)
PIECES = st.sampled_from(
    [*SEED, b"--- a/q", b"+++ b/q", b"--- /dev/null", b"+++ /dev/null", b"new file mode 100644", b" x"]
)


@settings(max_examples=150)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(SEED)), st.integers(0, 2), st.lists(PIECES, max_size=2)), max_size=3)
)
def test_git_finds_no_other_names_in_the_canonical_text(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, list[bytes]]]
) -> None:
    lines = list(SEED)
    for at, gone, put in edits:
        lines[at : at + gone] = put
    try:
        patch = parse_patch(b"\n".join(lines), RULES)
    except (InvalidPatch, PathOutOfBounds):
        return
    assert parse_patch(render(patch), RULES) == patch
    listed = git(
        tmp_path_factory.getbasetemp(), "apply", "--unidiff-zero", "--numstat", "-z", stdin=render(patch)
    ).split(b"\0")
    named = [file.new_path or file.old_path for file in patch.files]
    assert [line.split(b"\t")[2].decode() for line in listed if line] == named
